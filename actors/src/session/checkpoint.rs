//! A session's checkpoint: `bincode`, behind a header that tells a foreign, old or damaged one.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use bincode::config;
use serde::{Deserialize, Serialize};

use super::fold::{KnownTurn, SessionFold};
use crate::vocabulary::{self, Digest, Message, RunId, Spent};

const MAGIC: &[u8; 4] = b"GLCK";
/// Raised with every change of [`Checkpoint`]; older checkpoints are dropped and rebuilt.
const FORMAT: u32 = 10;
/// The least growth, in entries, before a session gets a new checkpoint: the entries of two turns.
const LEAST: u64 = 4;
const HEADER: usize = MAGIC.len() + 4 + 4 + 32;
/// The largest checkpoint that is read, in bytes.
const LIMIT: usize = 256 << 20;

/// A checkpoint that was read. The store has the files in its messages as blobs. They are plain structs only: `bincode`
/// cannot carry self-describing data.
#[derive(Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    entries: u64,
    messages: Vec<Arc<Message>>,
    files: Vec<FileApart>,
    active_agent: Option<String>,
    turns: BTreeMap<String, KnownTurn>,
    owner: Option<String>,
    open: Option<RunId>,
    origin: Option<RunId>,
    aside: BTreeMap<RunId, u64>,
    spent: Spent,
    titles: Vec<String>,
}

/// A file that a message is without.
#[derive(Debug, Serialize, Deserialize)]
struct FileApart {
    /// The place of the message in the conversation.
    message: usize,
    /// The place among the files of the message.
    place: usize,
    content: Digest,
}

/// The same messages without the files that a store has as blobs, and what they are without.
fn without_files(mut messages: Vec<Arc<Message>>) -> (Vec<Arc<Message>>, Vec<FileApart>) {
    let mut files = Vec::new();
    for (number, message) in messages.iter_mut().enumerate() {
        if !message.has_files_apart() {
            continue;
        }
        for (place, file) in Arc::make_mut(message).files_mut().enumerate() {
            if let Some(content) = file.bytes_apart() {
                file.put_back(&[]);
                files.push(FileApart {
                    message: number,
                    place,
                    content: Digest::of(&content),
                });
            }
        }
    }
    (messages, files)
}

/// The bytes of a checkpoint; `None` when there is nothing worth keeping. It refers to the files in the conversation.
pub fn encode_checkpoint(fold: &SessionFold) -> Option<Vec<u8>> {
    let (messages, files) = without_files(fold.transcript.messages());
    let checkpoint = Checkpoint {
        entries: fold.entries,
        messages,
        files,
        active_agent: fold.active_agent.clone(),
        turns: fold.turns.clone(),
        owner: fold.owner.clone(),
        open: fold.open,
        origin: fold.origin,
        aside: fold.aside.clone(),
        spent: fold.spent,
        titles: fold.titles.clone(),
    };
    let body = bincode::serde::encode_to_vec(&checkpoint, config::standard()).ok()?;
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&vocabulary::FORMAT.to_le_bytes());
    bytes.extend_from_slice(&Digest::of(&body).0);
    bytes.extend_from_slice(&body);
    Some(bytes)
}

/// Whether a session of `entries` entries needs a new checkpoint, when its checkpoint covers `kept`
/// of them: when the rest is half of all entries or more, and two turns at the least. So each entry
/// is written into two checkpoints on average, however long the session is, and half of the entries
/// at the most are left to be read. Reading an entry takes hardly longer than its part of a checkpoint,
/// since both hash its messages. A session of one turn has none, since its journal is read as fast.
pub(crate) fn checkpoint_is_due(kept: u64, entries: u64) -> bool {
    entries.saturating_sub(kept) >= LEAST.max(entries / 2)
}

/// Reads a checkpoint. `None` for one that is damaged, foreign or of another format: it is only rebuilt, since the journal
/// has everything.
pub fn decode_checkpoint(bytes: &[u8]) -> Option<Checkpoint> {
    let (header, body) = bytes.split_at_checked(HEADER)?;
    let (magic, rest) = header.split_at(MAGIC.len());
    let (format, rest) = rest.split_at(4);
    // A later program's fold may hold something that this program does not know.
    let (journal_format, digest) = rest.split_at(4);
    let is_ours = magic == MAGIC
        && format == FORMAT.to_le_bytes()
        && journal_format == vocabulary::FORMAT.to_le_bytes();
    if !is_ours || digest != Digest::of(body).0 {
        return None;
    }
    let config = config::standard().with_limit::<LIMIT>();
    let (checkpoint, read): (Checkpoint, usize) =
        bincode::serde::decode_from_slice(body, config).ok()?;
    (read == body.len()).then_some(checkpoint)
}

impl Checkpoint {
    /// The hashes of the files in its messages.
    pub fn files(&self) -> BTreeSet<Digest> {
        self.files.iter().map(|file| file.content).collect()
    }

    /// The fold, with these files in its messages. `None` where one of them is missing: the journal has everything.
    pub fn fold(self, contents: &HashMap<Digest, Arc<[u8]>>) -> Option<SessionFold> {
        let Self {
            entries,
            mut messages,
            files,
            active_agent,
            turns,
            owner,
            open,
            origin,
            aside,
            spent,
            titles,
        } = self;
        for file in files {
            let message = Arc::make_mut(messages.get_mut(file.message)?);
            let data = message.files_mut().nth(file.place)?;
            data.put_back(contents.get(&file.content)?);
        }
        Some(SessionFold {
            entries,
            transcript: messages.into_iter().collect(),
            active_agent,
            turns,
            owner,
            open,
            origin,
            aside,
            spent,
            titles,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::vocabulary::{
        Arguments, Data, DataSource, Entry, Part, Reasoning, Role, SessionTurn, ToolCall,
        ToolResult, ToolStatus, TurnEnd,
    };

    fn full() -> SessionFold {
        let call = ToolCall::new("c1", "add", Arguments::from_text("{\"a\": 1}"));
        let mut result = ToolResult::new(&call, ToolStatus::Unknown, "?");
        let source = DataSource::Url("https://example.com/a.png".into());
        result.attachments = vec![Data {
            media_type: "image/png".into(),
            name: Some("a".into()),
            source,
        }];
        let reasoning = Reasoning {
            text: "hm".into(),
            signature: Some("s".into()),
        };
        let parts = vec![Part::Reasoning(reasoning), Part::ToolCall(call)];
        let message = Message {
            role: Role::Assistant,
            author: Some("desk".into()),
            parts,
            synthetic: false,
        };
        let run = RunId::from_random(9);
        let messages = vec![
            Arc::new(Message::user("grüß dich 世界")),
            Arc::new(message),
            Arc::new(Message::results([result])),
            Arc::new(Message::synthetic("go on")),
        ];
        let mut fold = SessionFold::default();
        let turn = SessionTurn::new("t", run, Message::user("x"));
        fold.add(Entry::TurnStarted(Box::new(turn)));
        fold.add(Entry::TurnEnded(Box::new(TurnEnd::new(
            run, "desk", messages,
        ))));
        fold
    }

    fn read(bytes: &[u8]) -> Option<SessionFold> {
        decode_checkpoint(bytes)?.fold(&HashMap::new())
    }

    #[test]
    fn a_checkpoint_that_was_saved_reads_back() {
        let fold = full();
        assert_eq!(read(&encode_checkpoint(&fold).unwrap()).unwrap(), fold);
    }

    #[test]
    fn a_checkpoint_refers_to_the_files_that_the_store_has() {
        let (large, other) = (vec![7; 1 << 20], vec![8; 1 << 20]);
        let file = |bytes: &[u8]| Data::from_bytes("a.png", bytes).unwrap();
        let call = ToolCall::new("c", "draw", "{}");
        let mut result = ToolResult::new(&call, ToolStatus::Success, "drawn");
        result.attachments = vec![file(&other), file(b"small"), file(&large)];
        let said = Message::user("see")
            .attach(file(&large))
            .attach(file(b"small"));
        let mut fold = full();
        let messages = vec![Arc::new(said), Arc::new(Message::results([result]))];
        let end = TurnEnd::new(RunId::from_random(1), "desk", messages);
        fold.add(Entry::TurnEnded(Box::new(end)));
        let bytes = encode_checkpoint(&fold).unwrap();
        assert!(bytes.len() < 4 << 10, "{} bytes", bytes.len());
        let checkpoint = decode_checkpoint(&bytes).unwrap();
        let kept = |bytes: Vec<u8>| (Digest::of(&bytes), Arc::<[u8]>::from(bytes));
        let contents = [kept(large), kept(other)];
        let missing = contents[1].0;
        let hashes: BTreeSet<Digest> = contents.iter().map(|it| it.0).collect();
        assert_eq!(checkpoint.files(), hashes);
        let mut contents = HashMap::from(contents);
        assert_eq!(checkpoint.fold(&contents).unwrap(), fold);
        contents.retain(|hash, _| *hash != missing);
        assert_eq!(decode_checkpoint(&bytes).unwrap().fold(&contents), None);
    }

    #[test]
    fn writing_checkpoints_costs_a_bounded_amount_for_each_turn() {
        for turns in [100, 1_000, 10_000, 100_000] {
            let (mut kept, mut written) = (0, 0);
            for entries in (2..=2 * turns).step_by(2) {
                if checkpoint_is_due(kept, entries) {
                    (kept, written) = (entries, written + entries);
                }
                assert!(
                    entries - kept <= LEAST.max(entries / 2),
                    "{entries} entries, {kept} kept"
                );
            }
            let each = written / turns;
            assert!(
                each <= 4,
                "{each} entries are written for each of {turns} turns"
            );
        }
    }

    #[test]
    fn a_damaged_truncated_or_aged_checkpoint_is_dropped_and_never_misread() {
        let bytes = encode_checkpoint(&full()).unwrap();
        for at in 0..bytes.len() {
            assert_eq!(read(&bytes[..at]), None, "truncated at {at}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            assert_eq!(read(&flipped), None, "flipped at {at}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(read(&longer), None);
    }
}
