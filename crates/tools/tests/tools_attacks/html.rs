//! Pages that no browser wrote, read as Markdown.

use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{
    server::Server,
    web::{fetch, url, web},
};

/// Pieces of which pages are made that no browser wrote.
const PIECES: [&str; 34] = [
    "<",
    ">",
    "</",
    "/>",
    "<b>",
    "</b>",
    "<i",
    "<p>",
    "</p>",
    "<p",
    "<!--",
    "-->",
    "<!",
    "<![CDATA[",
    "<script>",
    "</script",
    "<style>",
    "<textarea>",
    "<table><tr><td>",
    "</table>",
    "<ol start=99999999999999999999><li>",
    "<ul>",
    "<pre>",
    "<svg>",
    "<math>",
    "<a href=\"",
    "'",
    "\"",
    "&",
    "&#x110000;",
    "&#0;",
    "\u{0}",
    "\n\n",
    "text é 世 ",
];

/// Whatever a page is made of, it is read as text that is not much longer, or refused.
#[test]
fn no_page_makes_a_panic_or_grows_without_bound() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let page: Arc<Mutex<String>> = Arc::default();
    let shown = page.clone();
    let server = runtime.block_on(Server::start(move |mut stream: TcpStream, _, _| {
        let page = shown.lock().clone();
        async move {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                page.len()
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(page.as_bytes()).await
        }
    }));
    let web = web(json!({}));
    proptest!(ProptestConfig::with_cases(200), |(pieces in prop::collection::vec((prop::sample::select(PIECES.to_vec()), 1_usize..4), 0..60))| {
        let text: String = pieces.iter().map(|(piece, times)| piece.repeat(*times)).collect();
        let length = text.len();
        *page.lock() = text;
        let told = runtime.block_on(fetch(&web, &url(&server, "/x")));
        let told = told.unwrap_or_else(|error| error);
        prop_assert!(!told.contains("was lost") && !told.contains("panicked"), "{told}");
        prop_assert!(told.len() < 40 * length + 2_000, "{} bytes of {length}", told.len());
    });
}
