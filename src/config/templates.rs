//! Agents that a team file describes once and uses several times.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
};

use ghostlight_actors::definition::TeamSpec;

use super::{
    document::{self, Content, Key, Node, Place, Scalar},
    fault::{Fault, FaultKind, instead},
    variables::{self, Lookup},
};

/// The most agents that templates may produce: templates that use each other multiply.
const MOST_AGENTS: usize = 10_000;

/// The most memory that expanded templates may take, in bytes: the values passed from one template
/// to the next can grow each time.
const MOST_BYTES: usize = 64 << 20;

/// The templates of a team, and the number of agents made from them.
struct Templates<'a> {
    by_name: Vec<(Key, Node)>,
    lookup: Lookup<'a>,
    made: usize,
    /// How many more bytes may be produced.
    left: Cell<usize>,
}

/// Takes the templates out of the team. References in their texts are resolved at each use.
pub(super) fn take(team: &mut Node) -> Result<Vec<(Key, Node)>, Fault> {
    let Content::Mapping(sections) = &mut team.content else {
        return Ok(Vec::new());
    };
    let Some(place) = sections.iter().position(|(key, _)| key.name == "templates") else {
        return Ok(Vec::new());
    };
    let (_, section) = sections.remove(place);
    match section.content {
        Content::Mapping(templates) => Ok(templates),
        _ => {
            let message = "`templates` must be a mapping of names to agents";
            Err(Fault::new(FaultKind::WrongValue, section.place, message))
        }
    }
}

/// Replaces each agent that names a template by the template.
pub(super) fn expand(
    team: &mut Node,
    by_name: Vec<(Key, Node)>,
    lookup: Lookup<'_>,
) -> Result<(), Fault> {
    let mut templates = Templates {
        by_name,
        lookup,
        made: 0,
        left: Cell::new(MOST_BYTES),
    };
    let Content::Mapping(sections) = &mut team.content else {
        return Ok(());
    };
    for (key, section) in sections {
        if key.name == "agent" {
            templates.agent(section, &mut Vec::new(), 0)?;
        }
    }
    Ok(())
}

impl Templates<'_> {
    /// Expands an agent and the agents below it. `within` names the templates around it, `above`
    /// counts the agents above it.
    fn agent(
        &mut self,
        agent: &mut Node,
        within: &mut Vec<String>,
        above: usize,
    ) -> Result<(), Fault> {
        // Later passes recurse once for each level of agents.
        if above >= TeamSpec::MAX_DEPTH {
            let message = format!("agents nest more than {} deep here", TeamSpec::MAX_DEPTH);
            return Err(Fault::new(FaultKind::Team, agent.place, message));
        }
        let depth = within.len();
        while let Some(used) = take_entry(agent, "template") {
            let with = take_entry(agent, "with");
            self.use_template(agent, &used.1, with, within)?;
        }
        if let Content::Mapping(entries) = &mut agent.content {
            for (key, value) in entries {
                if let ("agents", Content::List(below)) = (key.name.as_str(), &mut value.content) {
                    for agent in below {
                        self.agent(agent, within, above + 1)?;
                    }
                }
            }
        }
        within.truncate(depth);
        Ok(())
    }

    /// Merges the template into the agent; the agent's own fields win.
    fn use_template(
        &mut self,
        agent: &mut Node,
        used: &Node,
        with: Option<(Key, Node)>,
        within: &mut Vec<String>,
    ) -> Result<(), Fault> {
        let name = used.text().unwrap_or_default().to_owned();
        let Some((_, template)) = self.by_name.iter().find(|(key, _)| key.name == name) else {
            let known = self.by_name.iter().map(|(key, _)| key.name.as_str());
            let message = format!("there is no template `{name}`");
            let fault = Fault::new(FaultKind::UnknownName, used.place, message);
            return Err(fault.help(instead(&name, known)));
        };
        if within.contains(&name) {
            let message = format!("the template `{name}` uses itself");
            return Err(Fault::new(FaultKind::Team, used.place, message));
        }
        self.made += 1;
        if self.made > MOST_AGENTS {
            let message = format!("more than {MOST_AGENTS} agents are made of templates");
            return Err(Fault::new(FaultKind::Team, used.place, message));
        }
        take_room(&self.left, template)?;
        let mut filled = template.clone();
        self.fill(&mut filled, with, &name, used.place)?;
        let (Content::Mapping(own), Content::Mapping(entries)) =
            (&mut agent.content, &mut filled.content)
        else {
            let message = format!("the template `{name}` must be an agent");
            return Err(Fault::new(FaultKind::WrongValue, filled.place, message));
        };
        entries.retain(|(key, _)| own.iter().all(|(said, _)| said.name != key.name));
        own.append(entries);
        within.push(name);
        Ok(())
    }

    /// Substitutes the values of a use, and the environment's variables, in a template's texts.
    fn fill(
        &self,
        template: &mut Node,
        with: Option<(Key, Node)>,
        name: &str,
        place: Place,
    ) -> Result<(), Fault> {
        let filling = Filling {
            given: parameters(with)?,
            used: RefCell::default(),
            lookup: self.lookup,
            left: &self.left,
        };
        filling
            .fill(template, 1)
            .map_err(|fault| match fault.kind {
                FaultKind::Variable => fault.help(format!(
                    "the template `{name}` is used in line {}: give the value there, in `with`",
                    place.line
                )),
                _ => fault,
            })?;
        let used = filling.used.into_inner();
        let unused = |(key, _): &&(Key, Node)| !used.contains(&key.name);
        match filling.given.iter().find(unused) {
            None => Ok(()),
            Some((key, _)) => {
                let message = format!("the template `{name}` has no `${{{}}}`", key.name);
                let fault = Fault::new(FaultKind::UnknownKey, key.place, message);
                Err(fault.help(instead(&key.name, used.iter().map(String::as_str))))
            }
        }
    }
}

/// One use of a template: the values given, and which of them were used.
struct Filling<'a> {
    given: Vec<(Key, Node)>,
    used: RefCell<BTreeSet<String>>,
    lookup: Lookup<'a>,
    left: &'a Cell<usize>,
}

impl Filling<'_> {
    fn given(&self, name: &str) -> Result<Option<&Node>, Fault> {
        self.used.borrow_mut().insert(name.to_owned());
        let given = self.given.iter().find(|(key, _)| key.name == name);
        let Some((_, value)) = given else {
            return Ok(None);
        };
        take_room(self.left, value)?;
        Ok(Some(value))
    }

    /// Fills in a value at this depth of its template.
    fn fill(&self, node: &mut Node, level: usize) -> Result<(), Fault> {
        match &mut node.content {
            Content::List(items) => items
                .iter_mut()
                .try_for_each(|item| self.fill(item, level + 1)),
            Content::Mapping(entries) => entries
                .iter_mut()
                .try_for_each(|(_, value)| self.fill(value, level + 1)),
            Content::Text(text) => {
                // A text that is a single reference becomes the given value, which may be a number
                // or a list.
                let whole = variables::reference(&text.value).map(str::to_owned);
                if let Some(name) = &whole
                    && let Some(given) = self.given(name)?
                {
                    if level + given.depth() > document::MAX_DEPTH {
                        let most = document::MAX_DEPTH;
                        let message = format!("`{name}` nests more than {most} deep");
                        return Err(Fault::new(FaultKind::WrongValue, given.place, message));
                    }
                    *node = given.clone();
                    return Ok(());
                }
                self.fill_text(node)?;
                if let (Some(_), Content::Text(text)) = (whole, &node.content)
                    && let Ok(value) = text.value.parse()
                {
                    let written = text.value.clone();
                    node.content = Content::Whole(Scalar { value, written });
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn fill_text(&self, node: &mut Node) -> Result<(), Fault> {
        let misused = RefCell::new(None);
        let lookup = |name: &str| {
            let fault = match self.given(name) {
                Ok(None) => return (self.lookup)(name),
                Ok(Some(given)) => match given.text() {
                    Some(text) => return Some(text.to_owned()),
                    None => {
                        let message = format!("`{name}` is not text, and stands within one");
                        Fault::new(FaultKind::WrongValue, given.place, message)
                    }
                },
                Err(fault) => fault,
            };
            *misused.borrow_mut() = Some(fault);
            None
        };
        let filled = variables::substitute_in(node, &lookup);
        misused.into_inner().map_or(filled, Err)
    }
}

/// Subtracts the size of an inserted value from the remaining bytes.
fn take_room(left: &Cell<usize>, node: &Node) -> Result<(), Fault> {
    let Some(rest) = left.get().checked_sub(node.bytes()) else {
        let most = MOST_BYTES >> 20;
        let message = format!("templates make more than {most} MiB of this file");
        return Err(Fault::new(FaultKind::Team, node.place, message));
    };
    left.set(rest);
    Ok(())
}

fn take_entry(node: &mut Node, name: &str) -> Option<(Key, Node)> {
    let Content::Mapping(entries) = &mut node.content else {
        return None;
    };
    let place = entries.iter().position(|(key, _)| key.name == name)?;
    Some(entries.remove(place))
}

/// The values that a use gives.
fn parameters(with: Option<(Key, Node)>) -> Result<Vec<(Key, Node)>, Fault> {
    match with {
        None => Ok(Vec::new()),
        Some((_, with)) => match with.content {
            Content::Mapping(entries) => Ok(entries),
            _ => {
                let message = "`with` must be a mapping of names to values";
                Err(Fault::new(FaultKind::WrongValue, with.place, message))
            }
        },
    }
}
