//! Pages of the web as documents.

use std::{collections::BTreeSet, time::Duration};

use ghostlight_actors::vocabulary::seconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    retrieval::{
        index::{IndexError, Reading, Source, SourceEntry, SyncOptions},
        readers::ReaderError,
    },
    tools::{PageError, PageReader, ReadPage, WebError, WebSpec},
};

/// The name of a list without a name in an index, and the beginning of the others'.
const NAME: &str = "web";

/// Which pages of the web are documents, and under which rules they are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WebPageSpec {
    /// The addresses of the pages, of `https` or `http`. No others are read.
    pub pages: Vec<String>,
    /// The name of this list in an index: lists of several names can share one, and each removes only its own pages. In
    /// a team file it is the name of the tool when it is left out, and `recall_documents` for that policy: name it where
    /// several agents recall different pages from one index.
    #[serde(default)]
    pub list: Option<String>,
    /// Whether `robots.txt` is obeyed.
    #[serde(default = "obeys")]
    pub robots: bool,
    /// Addresses and networks that may be read although they are not public, such as `10.1.0.0/16`.
    #[serde(default)]
    pub allow_addresses: Vec<String>,
    /// The most bytes of a page.
    #[serde(default = "max_bytes")]
    pub max_bytes: usize,
    /// How long reading a page may take; 30 seconds when left out.
    #[serde(rename = "timeout_s", with = "seconds", default = "timeout")]
    #[schemars(with = "f64")]
    pub timeout: Duration,
}

fn obeys() -> bool {
    true
}

fn max_bytes() -> usize {
    8 << 20
}

fn timeout() -> Duration {
    Duration::from_secs(30)
}

impl WebPageSpec {
    /// These pages, with `robots.txt` obeyed and public addresses alone.
    pub fn new(pages: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            pages: pages.into_iter().map(Into::into).collect(),
            list: None,
            robots: obeys(),
            allow_addresses: Vec::new(),
            max_bytes: max_bytes(),
            timeout: timeout(),
        }
    }
}

/// A [`Source`] of pages of the web, HTML, PDF and every other format that the index reads.
///
/// A page that the index has is asked for only if it has changed (by its `ETag` or its time), and indexed only if
/// its bytes have. One that is gone (404, 410) is removed and told in the report; one whose server fails is tried three
/// times, told, and stays as it was. Pages that are no longer in the list are removed; those of
/// lists of other names stay ([`WebPageSpec::list`]). Private
/// addresses are refused, also after a redirect.
#[derive(Clone, Debug)]
pub struct WebPages {
    name: String,
    pages: BTreeSet<String>,
    reader: PageReader,
}

impl WebPages {
    /// The pages of these settings.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn new(settings: &WebPageSpec) -> Result<Self, WebError> {
        let mut rules = WebSpec::default();
        rules.schemes = vec![String::from("https"), String::from("http")];
        rules.ports = Vec::new();
        rules.robots = settings.robots;
        rules.allow_addresses.clone_from(&settings.allow_addresses);
        rules.max_bytes = settings.max_bytes;
        rules.timeout = settings.timeout;
        Ok(Self {
            name: match &settings.list {
                Some(list) => format!("{NAME}/{list}"),
                None => String::from(NAME),
            },
            pages: settings.pages.iter().cloned().collect(),
            reader: PageReader::open(rules)?,
        })
    }
}

impl Source for WebPages {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn entries(&self, options: &SyncOptions) -> Result<Vec<SourceEntry>, IndexError> {
        let pages = self.pages.iter();
        let admitted = pages.filter(|page| options.filter.admits(&self.name, page));
        let entries = admitted.map(|page| SourceEntry {
            name: page.clone(),
            read_as: String::new(),
            bytes: 0,
            version: None,
            held: None,
            metadata: Default::default(),
        });
        Ok(entries.take(options.max_files).collect())
    }

    async fn read(
        &self,
        entry: &SourceEntry,
        tag: Option<&str>,
        _: &SyncOptions,
    ) -> Result<Reading, ReaderError> {
        match self.reader.read(&entry.name, tag).await {
            Ok(ReadPage::Page {
                bytes,
                content_type,
                validator,
            }) => Ok(Reading::Content {
                bytes,
                read_as: Some(read_as(&content_type, &entry.name)),
                tag: validator,
            }),
            Ok(_) => Ok(Reading::Unchanged),
            Err(error @ PageError::Gone(_)) => Ok(Reading::Gone(error.to_string())),
            Err(error @ PageError::Unavailable(_)) => Ok(Reading::Unavailable(error.to_string())),
            Err(error) => Err(ReaderError::Failed(error.to_string())),
        }
    }
}

/// A name whose ending chooses the reader: by the type that the server gives, and where that says little, by the
/// address.
fn read_as(content_type: &str, address: &str) -> String {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    let ending = match kind {
        "text/html" => "html",
        "application/xhtml+xml" => "xhtml",
        "application/pdf" => "pdf",
        "text/markdown" => "md",
        "text/csv" => "csv",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
        _ => {
            let path = address.split(['?', '#']).next().unwrap_or_default();
            let last = path.rsplit('/').next().unwrap_or_default();
            let has_ending = last.contains('.') && path.matches('/').count() > 2;
            return match (has_ending, kind.starts_with("text/") || kind.is_empty()) {
                (true, _) => last.to_owned(),
                (false, true) => String::from("page.txt"),
                (false, false) => format!("page ({kind})"),
            };
        }
    };
    format!("page.{ending}")
}
