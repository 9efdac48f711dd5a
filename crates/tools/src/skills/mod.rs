//! Skills: folders with a `SKILL.md`. A model reads its description at first, and the rest when the skill is needed.
//!
//! The format is the public one (agentskills.io): `SKILL.md` begins with front matter between two `---` lines, with
//! `name` and `description`, and perhaps `license`, `compatibility`, `metadata` and `allowed-tools`; the instructions
//! follow. They name further files in the folder by their paths.

mod front_matter;

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use ghostlight_actors::{
    contract::{ToolContext, ToolError, ToolHandle, ToolOutput, Toolset},
    vocabulary::{Effect, ToolDefinition},
};
use ghostlight_safety::cut;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    blocking::blocking,
    files::{FilesError, Root},
};

use front_matter::front_matter;

/// The file that makes a folder a skill.
const FILE: &str = "SKILL.md";
/// The most bytes of a skill's `SKILL.md`, and of one of its other files.
const SKILL_BYTES: u64 = 256 << 10;
const FILE_BYTES: u64 = 2 << 20;
/// The most skills, and the most files of one skill.
const SKILLS: usize = 1_000;
const FILES: usize = 200;
/// The longest name and description, in characters, by the format.
const NAME: usize = 64;
const DESCRIPTION: usize = 1_024;
/// How many characters of a file one call gives.
const SHOWN: usize = 30_000;
/// The most bytes of descriptions in the tool's own description.
const OFFERED: usize = 32 << 10;

/// Where the skills of a team are.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SkillsSpec {
    /// Folders of skills, each skill in a folder of its own; or folders that are a skill themselves.
    pub folders: Vec<PathBuf>,
}

impl SkillsSpec {
    /// The skills of these folders.
    pub fn of<P: Into<PathBuf>>(folders: impl IntoIterator<Item = P>) -> Self {
        Self {
            folders: folders.into_iter().map(Into::into).collect(),
        }
    }
}

/// Why skills cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillsError {
    /// A folder cannot be opened.
    #[error(transparent)]
    Folder(#[from] FilesError),
    /// A folder cannot be read.
    #[error("the folder {folder:?} cannot be read: {source}")]
    Read {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A skill is invalid.
    #[error("the skill {skill:?} cannot be used: {reason}")]
    Skill {
        /// Its folder, or its name.
        skill: String,
        /// The fault in it.
        reason: String,
    },
}

ghostlight_actors::parts_of_system_error!(SkillsError);

/// One skill.
#[derive(Clone, Debug)]
pub struct Skill {
    name: String,
    description: String,
    allowed_tools: Vec<String>,
    body: String,
    /// The folder of its files; a skill made in code has none.
    home: Option<Home>,
}

#[derive(Clone, Debug)]
struct Home {
    root: Arc<Root>,
    /// The components of its folder's path below the root.
    parts: Vec<String>,
}

impl Skill {
    /// A skill made in code, which has no files.
    ///
    /// # Errors
    /// The name or the description breaks the format's rules.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        instructions: impl Into<String>,
    ) -> Result<Self, SkillsError> {
        let skill = Self {
            name: name.into(),
            description: description.into(),
            allowed_tools: Vec::new(),
            body: instructions.into(),
            home: None,
        };
        skill.checked()
    }

    /// Reads a `SKILL.md`.
    fn parse(text: &str) -> Result<Self, String> {
        let Some((front, body)) = ghostlight_safety::front_matter(text) else {
            return Err(
                match text.trim_start_matches('\u{feff}').starts_with("---") {
                    true => "the front matter has no end, which is a line `---`".to_owned(),
                    false => format!("{FILE} must begin with a line `---`"),
                },
            );
        };
        let mut skill = Self {
            name: String::new(),
            description: String::new(),
            allowed_tools: Vec::new(),
            body: body.trim().to_owned(),
            home: None,
        };
        for (key, value) in front_matter(front)? {
            match key.as_str() {
                "name" => skill.name = value.text(),
                "description" => skill.description = value.text(),
                "allowed-tools" => skill.allowed_tools = value.words(),
                // Other keys are for other programs.
                _ => {}
            }
        }
        skill.checked().map_err(|error| match error {
            SkillsError::Skill { reason, .. } => reason,
            other => other.to_string(),
        })
    }

    fn checked(self) -> Result<Self, SkillsError> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name = &self.name;
        let reason = if name.is_empty() || name.len() > NAME || !name.chars().all(is_plain) {
            format!("its `name` must be 1 to {NAME} small letters, digits and dashes")
        } else if self.description.trim().is_empty() {
            "its `description` is missing".to_owned()
        } else if self.description.chars().count() > DESCRIPTION {
            format!("its `description` has more than {DESCRIPTION} characters")
        } else {
            return Ok(self);
        };
        let skill = cut(&self.name, NAME).into_owned();
        Err(SkillsError::Skill { skill, reason })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When to use it.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The tools that the skill asks for. The model is told of them; which tools an agent has, and which calls need
    /// approval, is decided by the team alone.
    pub fn allowed_tools(&self) -> &[String] {
        &self.allowed_tools
    }
}

/// The tool `use_skill`, whose description lists the skills, and `read_skill_file` for their other files.
///
/// ```
/// use ghostlight_tools::{Skill, Skills};
///
/// let greeting = Skill::new("greeting", "How guests are greeted.", "Say `good evening`, always.")?;
/// let skills = Skills::new([greeting])?;
/// assert_eq!(skills.skills().len(), 1);
/// # Ok::<(), ghostlight_tools::SkillsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Skills {
    skills: Arc<[Skill]>,
    tools: Vec<ToolHandle>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Use {
    /// The skill's name.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFile {
    /// The skill's name.
    name: String,
    /// The file's path from the skill's folder, such as `references/forms.md`.
    path: String,
    /// From which character on.
    #[serde(default)]
    from: usize,
}

impl Skills {
    /// The skills of folders. An invalid skill is left out with a warning.
    ///
    /// # Errors
    /// A folder cannot be read, or two skills have one name.
    pub fn open(settings: &SkillsSpec) -> Result<Self, SkillsError> {
        let mut skills = Vec::new();
        for folder in &settings.folders {
            let root = Arc::new(Root::open(folder, &[".git".to_owned()])?);
            let failed = |source| SkillsError::Read {
                folder: folder.clone(),
                source,
            };
            let listed = root
                .folder(&[])
                .and_then(|dir| root.list(&dir, &[]))
                .map_err(failed)?;
            // The folder itself may be a skill.
            let itself = listed.iter().any(|entry| entry.name == FILE).then(Vec::new);
            let each = listed.into_iter().map(|entry| vec![entry.name]);
            for parts in itself.into_iter().chain(each) {
                let path: Vec<&str> = parts.iter().map(String::as_str).chain([FILE]).collect();
                // A folder without the file is not a skill.
                let Ok(Some(text)) = root.content(&path, SKILL_BYTES) else {
                    continue;
                };
                let read =
                    String::from_utf8(text).map_err(|_| "it is not text in UTF-8".to_owned());
                let read = read
                    .and_then(|text| Skill::parse(&text))
                    .and_then(|skill| match parts.last() {
                        Some(folder) if *folder != skill.name => Err(format!(
                            "its `name` {:?} must be that of its folder",
                            skill.name
                        )),
                        _ => Ok(skill),
                    });
                match read {
                    Ok(skill) if skills.len() < SKILLS => skills.push(Skill {
                        home: Some(Home {
                            root: root.clone(),
                            parts: parts.clone(),
                        }),
                        ..skill
                    }),
                    Ok(_) => tracing::warn!(
                        ?folder,
                        "there are more than {SKILLS} skills: the others are left out"
                    ),
                    Err(reason) => {
                        tracing::warn!(?folder, skill = ?parts, %reason, "a skill is left out")
                    }
                }
            }
        }
        Self::new(skills)
    }

    /// These skills.
    ///
    /// # Errors
    /// Two have one name.
    pub fn new(skills: impl IntoIterator<Item = Skill>) -> Result<Self, SkillsError> {
        let mut skills: Vec<Skill> = skills.into_iter().collect();
        skills.sort_by(|one, other| one.name.cmp(&other.name));
        if let Some(two) = skills.windows(2).find(|two| two[0].name == two[1].name) {
            return Err(SkillsError::Skill {
                skill: two[0].name.clone(),
                reason: "there are two of this name".to_owned(),
            });
        }
        let skills: Arc<[Skill]> = skills.into();
        let mut tools = Vec::new();
        if !skills.is_empty() {
            let (of_use, of_read) = (skills.clone(), skills.clone());
            let about = ToolDefinition::new("use_skill", offer(&skills)).effect(Effect::Read);
            let use_skill = ToolHandle::typed(about, move |wanted: Use, _: ToolContext| {
                let skills = of_use.clone();
                async move { blocking(move || find(&skills, &wanted.name)?.told()).await }
            });
            tools.push(naming(use_skill, &skills));
            let about = "Reads a file of a skill, which the skill's instructions name by its path.";
            let about = ToolDefinition::new("read_skill_file", about).effect(Effect::Read);
            tools.push(ToolHandle::typed(about, move |wanted: ReadFile, _: ToolContext| {
                let skills = of_read.clone();
                async move { blocking(move || find(&skills, &wanted.name)?.file(&wanted)).await }
            }));
        }
        Ok(Self { skills, tools })
    }

    /// All of them, by name.
    pub fn skills(&self) -> &[Skill] {
        &self.skills
    }
}

impl Toolset for Skills {
    fn tools(&self) -> Result<Vec<ToolHandle>, ToolError> {
        Ok(self.tools.clone())
    }
}

/// The names and descriptions, one a line, within bounds. Line breaks are removed, so that a description cannot look
/// like another skill.
fn offer(skills: &[Skill]) -> String {
    let mut offer = "Reads the instructions of a skill. Use one when a task is what its description says. The skills are:".to_owned();
    for (number, skill) in skills.iter().enumerate() {
        let about = one_line(&skill.description);
        if offer.len() + about.len() > OFFERED {
            let _ = write!(
                offer,
                "\n- and {} more, which are asked for by their names",
                skills.len() - number
            );
            break;
        }
        let _ = write!(offer, "\n- {}: {about}", skill.name);
    }
    offer
}

/// The tool with the names of the skills in its schema, unless they are too many to offer.
fn naming(tool: ToolHandle, skills: &[Skill]) -> ToolHandle {
    let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
    if names.iter().map(|name| name.len()).sum::<usize>() > OFFERED {
        return tool;
    }
    let mut definition = (**tool.definition()).clone();
    if let Some(name) = definition.parameters.pointer_mut("/properties/name") {
        name["enum"] = names.into();
    }
    tool.defined(definition)
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}

fn find<'s>(skills: &'s [Skill], name: &str) -> Result<&'s Skill, ToolError> {
    let found = skills.iter().find(|skill| skill.name == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = skills
            .iter()
            .take(50)
            .map(|skill| skill.name.as_str())
            .collect();
        ToolError::new(format!(
            "there is no such skill; there are: {}",
            known.join(", ")
        ))
    })
}

impl Skill {
    fn told(&self) -> Result<ToolOutput, ToolError> {
        let mut told = self.body.clone();
        if !self.allowed_tools.is_empty() {
            let _ = write!(
                told,
                "\n\n(It is written for the tools {}.)",
                self.allowed_tools.join(", ")
            );
        }
        let files = self.files()?;
        if !files.is_empty() {
            let _ = write!(
                told,
                "\n\n(Its files, for `read_skill_file`: {}.)",
                files.join(", ")
            );
        }
        Ok(ToolOutput::text(told))
    }

    /// The paths of its files, without `SKILL.md`.
    fn files(&self) -> Result<Vec<String>, ToolError> {
        let Some(home) = &self.home else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        let mut open = vec![Vec::<String>::new()];
        while let Some(below) = open.pop() {
            let parts: Vec<&str> = home
                .parts
                .iter()
                .chain(&below)
                .map(String::as_str)
                .collect();
            let listed = home
                .root
                .folder(&parts)
                .and_then(|dir| home.root.list(&dir, &parts))?;
            for entry in listed {
                let mut path = below.clone();
                path.push(entry.name);
                match entry.kind {
                    crate::files::Kind::Folder if path.len() < 8 => open.push(path),
                    crate::files::Kind::File(_) if path != [FILE] => found.push(path.join("/")),
                    _ => {}
                }
                if found.len() >= FILES {
                    return Ok(found);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    fn file(&self, wanted: &ReadFile) -> Result<ToolOutput, ToolError> {
        let Some(home) = &self.home else {
            return Err(ToolError::new("this skill has no files"));
        };
        // The path is checked by itself, so that it cannot lead into another skill either.
        let below = home.root.parts(&wanted.path)?;
        let parts: Vec<&str> = home.parts.iter().map(String::as_str).chain(below).collect();
        let failed = |error: std::io::Error| ToolError::new(format!("{}: {error}", wanted.path));
        let content = home.root.content(&parts, FILE_BYTES).map_err(failed)?;
        let content = content.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
        let size = content.len();
        let text = String::from_utf8(content)
            .map_err(|_| ToolError::new(format!("{} is not text: {size} bytes", wanted.path)))?;
        let mut shown: String = text.chars().skip(wanted.from).take(SHOWN).collect();
        let end = wanted.from + shown.chars().count();
        if text.chars().nth(end).is_some() {
            let _ = write!(shown, "\n(There is more: go on with from {end}.)");
        }
        Ok(ToolOutput::text(shown))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn front_matter_is_read_as_skills_write_it() {
        let text = "---\nname: pdf-forms\ndescription: >\n  Fills forms.\n  Use it for PDFs.\nlicense: MIT # free\nmetadata:\n  version: \"1.0\"\n  deep: { a: b }\nallowed-tools: Bash(git add:*) Read, Write\n---\n\n# How\n\n---\ntext\n";
        let skill = Skill::parse(text).unwrap();
        assert_eq!(
            (skill.name(), skill.description()),
            ("pdf-forms", "Fills forms. Use it for PDFs.")
        );
        assert_eq!(skill.allowed_tools(), ["Bash(git add:*)", "Read", "Write"]);
        assert_eq!(skill.body, "# How\n\n---\ntext");
        let lists = "---\r\nname: 'a'\r\ndescription: \"b: \\\"c\\\"\"\r\nallowed-tools:\r\n  - Read\r\n  - 'Write'\r\n---\r\nx";
        let skill = Skill::parse(lists).unwrap();
        assert_eq!(
            (skill.description(), skill.allowed_tools()),
            ("b: \"c\"", &["Read".to_owned(), "Write".to_owned()][..])
        );
    }

    #[test]
    fn what_the_format_does_not_allow_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "begin with"),
            ("# no front matter", "begin with"),
            ("---\nname: a\ndescription: b\n", "no end"),
            ("---\ndescription: b\n---\n", "`name`"),
            ("---\nname: a\n---\n", "`description` is missing"),
            ("---\nname: A\ndescription: b\n---\n", "small letters"),
            ("---\nname: ../a\ndescription: b\n---\n", "small letters"),
            ("---\nname: a\nname: b\ndescription: c\n---\n", "twice"),
            ("---\nname a\n---\n", "no `key: value`"),
            ("---\n  name: a\n---\n", "belongs to no key"),
        ] {
            let refused = Skill::parse(text).unwrap_err();
            assert!(refused.contains(reason), "{text:?}: {refused}");
        }
        let long = format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(1_025));
        assert!(Skill::parse(&long).unwrap_err().contains("more than 1024"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(---\n)?([a-z-]{0,6}:[ |>'\"\\[\\]#(),-]{0,4}[ -~]{0,12}\n([ -]{0,3}[ -~]{0,9}\n)?){0,5}(---\n)?[ -~\n]{0,20}") {
            let _ = Skill::parse(&text);
        }
    }
}
