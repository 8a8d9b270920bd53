//! Lines as operators see them: which claims hold or wait; and the names in use.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use etcd_client::{GetOptions, KeyValue, Txn, TxnOp, TxnOpResponse};
use tidelock_core::{ClaimInfo, Line, Name, Result, SessionId, Token};

use crate::open_session::OpenSession;

/// How many keys one request reads.
const PAGE: i64 = 5_000;
/// How many labels one request reads.
const LABELS: usize = 100;

impl OpenSession {
    pub(crate) async fn inspect(self: &Arc<Self>, name: &Name) -> Result<Line> {
        let view = self.read_line(name).await?;
        let shown = self.own_claims.shown(&view);
        let Some((kind, capacity)) = shown.in_use() else { return Ok(Line::default()) };
        let labels = self.labels(&view.sessions()).await?;
        let info = |(claim, is_held): (&tidelock_model::ShownClaim, bool)| {
            let token = if is_held { Token::from_order(claim.order) } else { None };
            let label = labels.get(&claim.id.session).cloned().unwrap_or_default();
            ClaimInfo::new(claim.id, claim.weight, token, label, None) // etcd keeps no time beside a key
        };
        Ok(Line::new(kind, capacity, shown.each().map(info).collect()))
    }

    async fn labels(self: &Arc<Self>, sessions: &[SessionId]) -> Result<HashMap<SessionId, String>> {
        let mut labels = HashMap::new();
        for page in sessions.chunks(LABELS) {
            let gets: Vec<_> =
                page.iter().map(|session| TxnOp::get(self.keys.label(*session), None)).collect();
            let session = self.clone();
            let reading =
                self.runtime.spawn(async move { session.link.transact(Txn::new().and_then(gets)).await });
            let answer = reading.await.unwrap_or_else(|_| Err(crate::link::Failed::ended()))?;
            for (session, part) in page.iter().zip(answer.op_responses()) {
                if let TxnOpResponse::Get(get) = part
                    && let Some(label) = get.kvs().first()
                {
                    labels.insert(*session, String::from_utf8_lossy(label.value()).into_owned());
                }
            }
        }
        Ok(labels)
    }

    /// The names whose line has a claim, all as one page.
    pub(crate) async fn names(self: &Arc<Self>, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        let session = self.clone();
        let reading = self.runtime.spawn(async move { session.all_names().await });
        let mut names = reading.await.unwrap_or_else(|_| Err(crate::link::Failed::ended()))?;
        names.retain(|name| name.starts_with(prefix) && after.is_none_or(|after| name > after));
        Ok(names.into_iter().collect())
    }

    async fn all_names(self: &Arc<Self>) -> std::result::Result<BTreeSet<Name>, crate::link::Failed> {
        let mut names = BTreeSet::new();
        self.each_page(|keys| {
            let taken = keys.iter().filter_map(|key| self.keys.take_apart(key.key()));
            names.extend(taken.filter(|(_, rest)| !rest.starts_with("size-")).map(|(name, _)| name));
        })
        .await?;
        Ok(names)
    }

    /// Reads all keys of the namespace, without their values, page by page.
    pub(crate) async fn each_page(
        self: &Arc<Self>,
        mut take: impl FnMut(&[KeyValue]),
    ) -> std::result::Result<(), crate::link::Failed> {
        let end = format!("{}0", self.keys.root().trim_end_matches('/'));
        let mut from = self.keys.root().to_owned();
        loop {
            let page = GetOptions::new().with_range(end.clone()).with_limit(PAGE).with_keys_only();
            let got = self.link.get(&from, page).await?;
            take(got.kvs());
            match got.kvs().last() {
                Some(last) if got.more() => from = format!("{}\0", String::from_utf8_lossy(last.key())),
                _ => return Ok(()),
            }
        }
    }
}
