//! Tasks as the XML that models write.

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};

use super::PlannedTask;

/// Why tasks in XML cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum XmlError {
    /// There is no section `<tasks>`.
    #[error("there is no section <tasks>…</tasks>")]
    NoTasks,
    /// The XML is not well formed.
    #[error("the section <tasks> is not well formed at byte {at}: {reason}")]
    Malformed {
        /// The byte of the error, counted from the section's beginning.
        at: u64,
        /// The fault.
        reason: String,
    },
}

ghostlight_actors::parts_of_system_error!(XmlError);

/// Reads the tasks of a text that contains a section `<tasks>`. Everything around it (prose, code
/// fences, a declaration) is ignored; CDATA is read as plain text, and an ampersand that begins no
/// entity stands for itself.
///
/// ```
/// use ghostlight::workflows::read_xml;
///
/// let tasks = read_xml(
///     "Here is my plan:\n```xml\n<tasks><task id='1' type='look' processor='search' priority='2'>
///       <description>cats & <![CDATA[<dogs>]]></description>
///       <dependencies><dep>0</dep></dependencies>
///       <metadata><item key='lang'>de</item></metadata>
///     </task></tasks>\n```",
/// )?;
/// assert_eq!(tasks[0].description, "cats & <dogs>");
/// assert_eq!(tasks[0].dependencies, ["0"]);
/// # Ok::<(), ghostlight::workflows::XmlError>(())
/// ```
///
/// # Errors
/// When there is no such section, or it is not well formed.
pub fn read_xml(text: &str) -> Result<Vec<PlannedTask>, XmlError> {
    let section = with_escaped_ampersands(section(text).ok_or(XmlError::NoTasks)?);
    let mut reader = Reader::from_str(&section);
    let mut tasks = Vec::new();
    let mut within = Within::default();
    loop {
        let malformed = |at: u64, reason: String| XmlError::Malformed { at, reason };
        let event = reader
            .read_event()
            .map_err(|error| malformed(reader.error_position(), error.to_string()))?;
        let at = reader.buffer_position();
        match event {
            Event::Start(start) => within.begins(&start).map_err(|why| malformed(at, why))?,
            Event::Empty(start) => {
                within.begins(&start).map_err(|why| malformed(at, why))?;
                tasks.extend(within.ends());
            }
            Event::End(_) => tasks.extend(within.ends()),
            Event::Text(text) => within.text.push_str(&text),
            Event::GeneralRef(reference) => within.text.push_str(&resolved(&reference)),
            Event::CData(data) => within.text.push_str(&data),
            Event::Eof if within.path.is_empty() => return Ok(tasks),
            Event::Eof => {
                let open = within.path.join(" in ");
                return Err(malformed(at, format!("<{open}> is not closed")));
            }
            _ => {}
        }
    }
}

/// The section from `<tasks` to the last `</tasks>` after it.
fn section(text: &str) -> Option<&str> {
    let opens = |at: &usize| {
        let after = text[at + "<tasks".len()..].chars().next();
        after.is_some_and(|c| c == '>' || c.is_whitespace())
    };
    let begin = text.match_indices("<tasks").map(|(at, _)| at).find(opens)?;
    let section = &text[begin..];
    let end = section.rfind("</tasks>")?;
    Some(&section[..end + "</tasks>".len()])
}

/// The text with each ampersand escaped that begins no entity, outside of CDATA.
fn with_escaped_ampersands(section: &str) -> String {
    let mut escaped = String::with_capacity(section.len());
    let mut rest = section;
    while let Some(at) = rest.find(['&', '<']) {
        escaped.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("<![CDATA[") {
            let end = rest.find("]]>").map_or(rest.len(), |end| end + 3);
            escaped.push_str(&rest[..end]);
            rest = &rest[end..];
        } else if rest.starts_with('&') && !begins_entity(rest) {
            escaped.push_str("&amp;");
            rest = &rest[1..];
        } else {
            escaped.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    escaped.push_str(rest);
    escaped
}

fn begins_entity(text: &str) -> bool {
    let Some((name, _)) = text[1..].split_once(';') else {
        return false;
    };
    match name.strip_prefix('#') {
        Some(number) => number_of(number).is_some(),
        None => ["amp", "lt", "gt", "quot", "apos"].contains(&name),
    }
}

fn number_of(number: &str) -> Option<char> {
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok()?,
        None => number.parse().ok()?,
    };
    char::from_u32(code)
}

/// The meaning of an entity.
fn resolved(name: &str) -> String {
    let character = match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => name.strip_prefix('#').and_then(number_of),
    };
    character.map_or_else(|| format!("&{name};"), String::from)
}

/// The reader's place, and the task there so far.
#[derive(Default)]
struct Within {
    path: Vec<String>,
    text: String,
    task: Option<PlannedTask>,
    /// The name of the metadata that is being read.
    key: String,
}

impl Within {
    fn begins(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        let name = start.name().as_ref().to_owned();
        let mut attributes = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let name = attribute.key.as_ref().to_owned();
            attributes.push((name, unescaped(&attribute.value)));
        }
        let mut attribute = |wanted: &str| {
            let place = attributes.iter().position(|(name, _)| name == wanted);
            place.map(|place| attributes.swap_remove(place).1)
        };
        if name == "task" && self.task.is_none() {
            let mut task = PlannedTask {
                id: attribute("id").unwrap_or_default(),
                kind: attribute("type").unwrap_or_default(),
                processor: attribute("processor").unwrap_or_default(),
                ..PlannedTask::default()
            };
            if let Some(priority) = attribute("priority") {
                task.priority = priority
                    .trim()
                    .parse()
                    .map_err(|_| format!("the priority {priority:?} is not a whole number"))?;
            }
            self.task = Some(task);
        } else if name == "item" {
            self.key = attribute("key").unwrap_or_default();
        }
        self.path.push(name);
        self.text.clear();
        Ok(())
    }

    /// Leaves an element, and returns the task if the element was one.
    fn ends(&mut self) -> Option<PlannedTask> {
        let name = self.path.pop()?;
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        if name == "task" && !self.path.iter().any(|above| above == "task") {
            return self.task.take();
        }
        let task = self.task.as_mut()?;
        match (name.as_str(), self.path.last().map(String::as_str)) {
            ("description", _) => text.clone_into(&mut task.description),
            ("dep", _) if !text.is_empty() => task.dependencies.push(text.to_owned()),
            ("item", Some("metadata")) if !self.key.is_empty() => {
                let key = std::mem::take(&mut self.key);
                task.metadata.insert(key, text.into());
            }
            _ => {}
        }
        None
    }
}

/// A text with its entities resolved.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        match rest[1..].split_once(';') {
            Some((name, after)) if begins_entity(rest) => {
                plain.push_str(&resolved(name));
                rest = after;
            }
            _ => {
                plain.push('&');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_models_write_around_and_into_it_is_understood() {
        let text = "<?xml version='1.0'?>\ntasks:\n```xml\n<tasks version=\"1\">\n\
            <task id=\"a&amp;b\" type=\"t\" processor=\"p\"><description>R&D, 1 &lt; 2 &#x41; \
            <![CDATA[x < y && z]]> &unknown;</description></task>\n\
            <task id=\"2\" processor=\"q\" priority=\" 7 \"><description/>\
            <dependencies><dep>a&amp;b</dep><dep> </dep></dependencies>\
            <metadata><item key=\"k\">v</item></metadata></task></tasks>\n```\nDone.";
        let tasks = read_xml(text).unwrap();
        assert_eq!(tasks.len(), 2);
        assert_eq!(tasks[0].id, "a&b");
        assert_eq!(tasks[0].description, "R&D, 1 < 2 A x < y && z &unknown;");
        assert_eq!((tasks[1].priority, tasks[1].description.as_str()), (7, ""));
        assert_eq!(tasks[1].dependencies, ["a&b"]);
        assert_eq!(tasks[1].metadata["k"], "v");
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let wrong = |text: &str| read_xml(text).unwrap_err();
        assert_eq!(wrong("no tasks"), XmlError::NoTasks);
        assert_eq!(wrong("</tasks><tasks>"), XmlError::NoTasks);
        assert_eq!(wrong("<taskset></taskset>"), XmlError::NoTasks);
        for text in [
            "<tasks><task></tasks>",
            "<tasks><task id='a></task></tasks>",
            "<tasks><task priority='high'/></tasks>",
        ] {
            assert!(matches!(wrong(text), XmlError::Malformed { .. }), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(<tasks>|</tasks>|<task id='|'>|</task>|<!\\[CDATA\\[|]]>|&|;|amp|#|x|é|<|>){0,24}") {
            let _ = read_xml(&text);
            let _ = read_xml(&format!("<tasks>{text}</tasks>"));
        }

        #[test]
        fn any_text_survives_in_cdata_and_escaped(text in "[a-z<>&;#' é]{0,30}") {
            let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            for body in [format!("<![CDATA[{text}]]>"), escaped] {
                let xml = format!("<tasks><task id='1'><description>{body}</description></task></tasks>");
                let tasks = read_xml(&xml).unwrap();
                prop_assert_eq!(&tasks[0].description, text.trim());
            }
        }
    }
}
