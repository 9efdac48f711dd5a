//! The page on which people see agents at work and step in.
//!
//! [`FILES`] are ES modules and style sheets, written by hand and embedded here: there is no Node build, and nothing is
//! fetched from elsewhere. They use only the JSON interface of [`ghostlight_server`], which other programs can use,
//! too.
//! [`Server::page`](ghostlight_server::Server::page) serves them:
//!
//! ```
//! fn with_page(server: ghostlight_server::Server) -> ghostlight_server::Server {
//!     server.page(ghostlight_page::FILES)
//! }
//! ```
//!
//! A model's text becomes text nodes and never markup: the files have no sink for markup, and with the content security
//! policy of their responses the browser would refuse one.

use ghostlight_server::PageFile;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! file {
    ($path:expr, $name:literal, $media_type:expr) => {
        PageFile {
            path: $path,
            media_type: $media_type,
            content: include_str!(concat!("../page/", $name)),
        }
    };
    ($name:literal, $media_type:expr) => {
        file!(concat!("/", $name), $name, $media_type)
    };
}

/// The files of the page, each with its path.
pub const FILES: &[PageFile] = &[
    file!("/", "index.html", HTML),
    file!("page.css", CSS),
    file!("run.css", CSS),
    file!("actions.js", SCRIPT),
    file!("api.js", SCRIPT),
    file!("app.js", SCRIPT),
    file!("chat.js", SCRIPT),
    file!("compare.js", SCRIPT),
    file!("conversation.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("evaluations.js", SCRIPT),
    file!("folded.js", SCRIPT),
    file!("fork.js", SCRIPT),
    file!("format.js", SCRIPT),
    file!("graph.js", SCRIPT),
    file!("home.js", SCRIPT),
    file!("inspector.js", SCRIPT),
    file!("list.js", SCRIPT),
    file!("memory.js", SCRIPT),
    file!("pill.js", SCRIPT),
    file!("questions.js", SCRIPT),
    file!("record.js", SCRIPT),
    file!("run.js", SCRIPT),
    file!("system.js", SCRIPT),
    file!("team.js", SCRIPT),
    file!("timeline.js", SCRIPT),
    file!("workflow.js", SCRIPT),
    file!("lamp.svg", SVG),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The files that a browser loads at first, without compression.
    #[test]
    fn the_page_is_small() {
        let bytes: usize = FILES.iter().map(|file| file.content.len()).sum();
        assert!(bytes < 250_000, "{bytes} bytes");
    }

    /// The ways in which a text could become markup or code.
    #[test]
    fn no_file_has_a_sink_for_markup_and_none_names_another_site() {
        for file in FILES {
            for sink in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "srcdoc",
                "<script>",
                "style=\"",
                "onclick=\"",
            ] {
                assert!(!file.content.contains(sink), "{}: {sink}", file.path);
            }
            let others = file.content.replace("http://www.w3.org/2000/svg", "");
            assert!(!others.contains("://"), "{} names a site", file.path);
        }
    }

    /// If an imported module is not served, the page stays empty.
    #[test]
    fn every_file_that_another_one_names_is_served() {
        let paths: Vec<&str> = FILES.iter().map(|file| file.path).collect();
        for file in FILES {
            for rest in file.content.split("from \"./").skip(1) {
                let name = rest.split('"').next().unwrap_or_default();
                assert!(paths.contains(&format!("/{name}").as_str()), "{name}");
            }
            for rest in file.content.split("=\"/").skip(1) {
                let name = rest.split('"').next().unwrap_or_default();
                assert!(paths.contains(&format!("/{name}").as_str()), "{name}");
            }
        }
    }
}
