//! What the suite does at the server: looks for what a stage left behind, deletes everything, and adds users.

use std::str::FromStr;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};
use tidelock_core::{Error, ErrorKind, Result, SessionId};
use tokio::time::Instant;

/// How long a server may take to serve again.
const IN_STEP: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(50);
const ANSWER: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Operator {
    options: MySqlConnectOptions,
}

impl Operator {
    pub(super) fn at(url: &str) -> Result<Self> {
        let options = MySqlConnectOptions::from_str(url).map_err(trouble)?.disable_statement_logging();
        Ok(Self { options })
    }

    /// A connection for a few statements: each trial has its own runtime, and connections do not outlive it.
    async fn connect(&self) -> Result<MySqlConnection> {
        let late = |_| Error::no_answer("the server of the suite");
        tokio::time::timeout(ANSWER, self.options.connect()).await.map_err(late)?.map_err(trouble)
    }

    async fn run(&self, text: String) -> Result<Vec<String>> {
        let mut connection = self.connect().await?;
        let rows = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(&mut connection).await.map_err(trouble)?;
        let shown = |row: &sqlx::mysql::MySqlRow| {
            let value = |at| row.try_get_unchecked::<Option<&[u8]>, _>(at).ok().flatten().unwrap_or_default();
            let texts = (0..row.len()).map(|at| String::from_utf8_lossy(value(at)).into_owned());
            texts.collect::<Vec<_>>().join(" ")
        };
        Ok(rows.iter().map(shown).collect())
    }

    /// What is left in the namespaces that begin with `namespace`. A name without claims keeps its newest token for an
    /// hour.
    pub(super) async fn leftovers(&self, namespace: &str, open: &[SessionId]) -> Result<Vec<String>> {
        let (from, to) = (hex(namespace), format!("CONCAT({}, x'ff')", hex(namespace)));
        let tables = self.run("SHOW TABLES LIKE 'tidelock\\_claim'".into()).await?;
        if tables.is_empty() {
            return Ok(Vec::new());
        }
        let open =
            open.iter().map(|id| id.get().to_string()).chain(["0".into()]).collect::<Vec<_>>().join(",");
        let lines = format!(
            "SELECT 'a claim holds alone:', session, number, CONVERT(name USING utf8mb4) FROM tidelock_line \
             WHERE name >= {from} AND name < {to} AND spilled = 0 AND session <> 0"
        );
        let claims = format!(
            "SELECT 'a claim is left:', session, number, CONVERT(name USING utf8mb4) FROM tidelock_claim \
             WHERE name >= {from} AND name < {to} AND (state < 2 OR session NOT IN ({open}) AND session IN \
             (SELECT id FROM tidelock_session WHERE expires = 0))"
        );
        let mut left = self.run(lines).await?;
        left.extend(self.run(claims).await?);
        Ok(left)
    }

    /// Deletes all rows.
    pub(super) async fn forget(&self) -> Result<()> {
        let tables = ["line", "claim", "session", "bell"];
        let text = tables.map(|table| format!("DELETE FROM tidelock_{table};")).concat();
        self.run(text).await.map(drop)
    }

    pub(super) async fn add_user(&self, user: &str, password: &str, may_everything: bool) -> Result<()> {
        let mut text = format!("CREATE OR REPLACE USER '{user}'@'%' IDENTIFIED BY '{password}';");
        // Without any right on a database, the server refuses the login to it.
        let database = self.options.get_database().unwrap_or_default();
        let rights = if may_everything { "ALL" } else { "SHOW VIEW" };
        text.push_str(&format!("GRANT {rights} ON `{database}`.* TO '{user}'@'%';"));
        self.run(text).await.map(drop)
    }

    pub(super) async fn remove_user(&self, user: &str) -> Result<()> {
        self.run(format!("DROP USER IF EXISTS '{user}'@'%'")).await.map(drop)
    }

    /// Waits until the server serves.
    pub(super) async fn settle(&self) -> Result<()> {
        let began = Instant::now();
        while self.connect().await.is_err() {
            if began.elapsed() > IN_STEP {
                let late = format!("the server did not serve again within {IN_STEP:?}");
                return Err(Error::new(ErrorKind::Unavailable, late));
            }
            tokio::time::sleep(GLANCE).await;
        }
        Ok(())
    }
}

fn hex(text: &str) -> String {
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}

fn trouble(error: sqlx::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the suite's own connection to the server failed").because(error)
}
