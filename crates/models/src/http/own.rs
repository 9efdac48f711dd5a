//! Parts of a message that go back to their own provider alone.

#[cfg(any(feature = "anthropic", feature = "gemini"))]
use ghostlight_actors::vocabulary::ProviderPartKind;
use ghostlight_actors::vocabulary::{Data, DataSource, Part, ProviderPart};
use serde_json::{Map, Value};

#[cfg(any(feature = "anthropic", feature = "gemini"))]
/// Adds fields to a block, in nested objects too. A field that both have is the added one.
pub(crate) fn add_fields(block: &mut Value, fields: &Value) {
    match (block, fields) {
        (Value::Object(block), Value::Object(fields)) => {
            for (name, value) in fields {
                match block.get_mut(name) {
                    Some(known) => add_fields(known, value),
                    None => drop(block.insert(name.clone(), value.clone())),
                }
            }
        }
        (block, fields) => fields.clone_into(block),
    }
}

#[cfg(any(feature = "anthropic", feature = "gemini"))]
/// The blocks of a message of the model, as they go back to one provider.
pub(crate) struct OwnBlocks<'a> {
    provider: &'a str,
    blocks: Vec<Value>,
    /// The place of the block of the last part, if that part was sent.
    last: Option<usize>,
}

#[cfg(any(feature = "anthropic", feature = "gemini"))]
impl<'a> OwnBlocks<'a> {
    pub(crate) fn of(provider: &'a str) -> Self {
        Self {
            provider,
            blocks: Vec::new(),
            last: None,
        }
    }

    /// Adds a part that has this block, or none. What is the provider's own is put in its place, or into the block
    /// before it; what is another's is left out.
    pub(crate) fn add(&mut self, part: &Part, block: impl FnOnce(&Part) -> Option<Value>) {
        let block = match part {
            Part::Provider(own) if own.provider != self.provider => return,
            Part::Provider(own) => match own.kind {
                ProviderPartKind::Fields => {
                    if let Some(last) = self.last {
                        add_fields(&mut self.blocks[last], &own.content);
                    }
                    return;
                }
                ProviderPartKind::Block => Some(own.content.clone()),
                _ => return,
            },
            other => block(other),
        };
        self.last = block.map(|block| {
            self.blocks.push(block);
            self.blocks.len() - 1
        });
    }

    pub(crate) fn into_blocks(self) -> Vec<Value> {
        self.blocks
    }
}

#[cfg(any(feature = "bedrock", feature = "gemini", feature = "openai"))]
/// The values beside an answer, by name: lists that come in pieces grow, all else is the last value that came.
#[derive(Default)]
pub(crate) struct Notes(Map<String, Value>);

#[cfg(any(feature = "bedrock", feature = "gemini", feature = "openai"))]
impl Notes {
    /// Keeps this under the name; nothing and empty things are not kept.
    pub(crate) fn add(&mut self, name: &str, told: Value) {
        let is_empty = match &told {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.values().all(Value::is_null),
            _ => false,
        };
        if is_empty {
            return;
        }
        match (self.0.get_mut(name), told) {
            (Some(Value::Array(known)), Value::Array(more)) => known.extend(more),
            (Some(Value::Object(known)), Value::Object(more)) => {
                let mut known = Notes(std::mem::take(known));
                more.into_iter()
                    .for_each(|(name, told)| known.add(&name, told));
                self.0.insert(name.to_owned(), Value::Object(known.0));
            }
            (_, told) => drop(self.0.insert(name.to_owned(), told)),
        }
    }

    /// Keeps this instead of what stands under the name.
    #[cfg(feature = "openai")]
    pub(crate) fn set(&mut self, name: &str, told: Value) {
        let before = self.0.remove(name);
        self.add(name, told);
        if let (None, Some(before)) = (self.0.get(name), before) {
            self.0.insert(name.to_owned(), before);
        }
    }

    /// The part that keeps the notes, if there are any.
    pub(crate) fn part(self, provider: &str) -> Option<Part> {
        let content = Value::Object(self.0);
        let is_empty = content.as_object().is_some_and(Map::is_empty);
        (!is_empty).then(|| Part::Provider(ProviderPart::note(provider, content)))
    }
}

#[cfg(any(feature = "anthropic", feature = "gemini"))]
/// The part that ends the text before it, where the next text is another block of the provider's.
pub(crate) fn text_ends(provider: &str) -> Part {
    Part::Provider(ProviderPart::fields(provider, Value::Object(Map::new())))
}

#[cfg(any(feature = "anthropic", feature = "openai"))]
/// A file in words, for a provider that does not take it from its model.
pub(crate) fn in_words(data: &Data) -> String {
    let name = data.name.as_deref().unwrap_or("file");
    match &data.source {
        DataSource::Url(url) => format!("[{name} ({}): {url}]", data.media_type),
        _ => format!("[{name} ({})]", data.media_type),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_added_at_every_depth() {
        let mut block = json!({"functionCall": {"name": "f", "args": {}}});
        add_fields(
            &mut block,
            &json!({"functionCall": {"id": "a"}, "thoughtSignature": "s"}),
        );
        assert_eq!(
            block,
            json!({"functionCall": {"name": "f", "args": {}, "id": "a"}, "thoughtSignature": "s"})
        );
    }

    #[test]
    fn notes_in_pieces_become_whole_and_nothing_is_no_note() {
        let mut notes = Notes::default();
        notes.add("a", json!([1]));
        notes.add("a", json!([2]));
        notes.add("b", json!({"c": [1], "d": 1}));
        notes.add("b", json!({"c": [2], "d": 2}));
        notes.add("none", json!({"c": null}));
        let part = notes.part("acme");
        let expected = json!({"a": [1, 2], "b": {"c": [1, 2], "d": 2}});
        let expected = Part::Provider(ProviderPart::note("acme", expected));
        assert_eq!(part, Some(expected));
        assert_eq!(Notes::default().part("acme"), None);
    }
}
