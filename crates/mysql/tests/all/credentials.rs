//! Credentials that the program gives, in place of those in the URL.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidelock_mysql::{ErrorKind, Login, Options, Store};

use crate::server::{run, until, url_of};

fn options() -> Options {
    Options::new().namespace("credentials").connect_deadline(Duration::from_secs(3))
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_password_may_change_while_the_program_runs() {
    run(
        "CREATE OR REPLACE USER 'changing'@'%' IDENTIFIED BY 'first'; GRANT ALL ON tidelock.* TO 'changing'@'%'",
    )
    .await;
    let password = Arc::new(Mutex::new("first"));
    let asked = password.clone();
    let ask = move || {
        let login = Login::user("changing", *asked.lock().unwrap());
        async move { Ok(login) }
    };
    let store = Store::open(&url_of("nobody", "tidelock")).unwrap().credentials(ask);
    let locks = store.connect(options()).await.unwrap();
    let mutex = locks.mutex("stock").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    run("ALTER USER 'changing'@'%' IDENTIFIED BY 'second'").await;
    *password.lock().unwrap() = "second";
    for row in run("SELECT id FROM information_schema.PROCESSLIST WHERE user = 'changing'").await {
        run(&format!("KILL {}", row[0])).await;
    }
    until("it works with the new password", async || mutex.lock().await.is_ok()).await;
    locks.close().await.unwrap();
    run("DROP USER 'changing'@'%'").await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_program_that_has_no_credentials_is_told_so() {
    let ask = || async { Err("the vault is closed".into()) };
    let store = Store::open(&url_of("nobody", "tidelock")).unwrap().credentials(ask);
    let refused = store.connect(options()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused:?}");
    assert!(refused.to_string().contains("the vault is closed"), "{refused}");
}
