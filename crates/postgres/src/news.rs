//! Notices over the database, by `LISTEN` and `NOTIFY`.
//!
//! A commit that puts items into mailboxes, or with which runs come to rest, notifies the channel that is named as the
//! schema; a commit that is rolled back notifies nobody. A node that leaves does so too. Each node listens on the connection
//! of its lease, so a node that hears nothing also loses its lease, and needs no connection more. A notice says only that
//! there is something: mailboxes, owners and runs are read from the tables, so nothing depends on it but how soon that happens.
//!
//! Notices cost commits nothing that they do not pay already: the lock that the database holds on its queue of notices from
//! the end of a commit's last statement is held within that of the row `tail`, for which commits take turns.

use std::future;

use ghostlight_actors::{
    contract::{News, Notice},
    vocabulary::RunId,
};
use tokio_postgres::{AsyncMessage, Connection, tls::TlsStream};

/// The word that a node puts before its id when it leaves. Without a word items were posted.
pub(crate) const LEFT: &str = "left ";

/// The word before the id of a node and the runs that came to rest there.
const RESTED: &str = "rested ";

/// How many runs one notice names. The database takes less than 8,000 bytes.
const MOST: usize = 200;

/// The texts of a commit's notices.
pub(crate) fn texts(node: &str, has_posted: bool, rested: &[RunId]) -> Vec<String> {
    let of_rest = rested.chunks(MOST).map(|runs| {
        let runs = runs.iter().map(|run| format!(" {run}"));
        format!("{RESTED}{node}{}", runs.collect::<String>())
    });
    let posted = has_posted.then(|| node.to_owned());
    posted.into_iter().chain(of_rest).collect()
}

/// The node that gave a notice, and what it says. Programs of before take each text that they do not know for posted items,
/// and look for those.
fn read(text: &str) -> (&str, Vec<Notice>) {
    if let Some(node) = text.strip_prefix(LEFT) {
        return (node, vec![Notice::Left]);
    }
    let Some(rested) = text.strip_prefix(RESTED) else {
        return (text, vec![Notice::Posted]);
    };
    let (node, runs) = rested.split_once(' ').unwrap_or((rested, ""));
    let runs = runs.split(' ').filter_map(|run| run.parse().ok());
    (node, runs.map(Notice::Rested).collect())
}

/// Drives a connection to its end, and tells the notices of other nodes. This node tells itself what it does.
pub(crate) async fn hear<S, T>(news: &News, mut connection: Connection<S, T>, node: &str)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: TlsStream + Unpin,
{
    while let Some(Ok(message)) = future::poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(notice) = message {
            let (by, notices) = read(notice.payload());
            if by != node {
                notices.into_iter().for_each(|notice| news.tell(notice));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_read_as_they_were_written_however_many_runs_they_name() {
        let node = format!("{}-{:016x}", u32::MAX, u64::MAX);
        let runs: Vec<RunId> = (0..1_000)
            .map(|number| RunId::from_random(number << 64))
            .collect();
        let texts = texts(&node, true, &runs);
        assert!(texts.iter().all(|text| text.len() < 8_000));
        let mut heard = Vec::new();
        for text in &texts {
            let (by, notices) = read(text);
            assert_eq!(by, node);
            heard.extend(notices);
        }
        let told = runs.into_iter().map(Notice::Rested);
        let told: Vec<Notice> = [Notice::Posted].into_iter().chain(told).collect();
        assert_eq!(heard, told);
        let left = format!("{LEFT}{node}");
        assert_eq!(read(&left), (node.as_str(), vec![Notice::Left]));
        assert!(super::texts(&node, false, &[]).is_empty());
    }
}
