//! `ghostlight doctor`: what is set up, what is missing, whether the model answers and whether the store is
//! sound.

use std::time::{Duration, Instant};

use ghostlight::{config, environment};
use ghostlight_actors::{
    contract::{ModelContext, RunFilter, RunStatus},
    definition::{AgentSpec, TeamSpec},
    run::Registry,
    vocabulary::{Message, ModelRequest},
};

use super::trying::{self, Ability};
use crate::{
    default_model,
    exit::{Exit, Failure},
    keeping::{self, Keeping},
    more_arguments::Doctor as Arguments,
    plain_text, user_config,
};

/// How long a model has to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Checks everything, and reports the result of each check.
pub(super) async fn doctor(arguments: Arguments, registry: Registry) -> Result<Exit, Failure> {
    let mut doctor = Doctor { ill: false };
    doctor.says("version", Ok(env!("CARGO_PKG_VERSION").to_owned()))?;
    doctor.settings()?;
    let mut team = match &arguments.team_file {
        None => TeamSpec::new(AgentSpec::new("doctor")),
        Some(path) => {
            let checked = config::load(path)
                .and_then(|file| file.resolve(registry.clone()).map(|_| file.into_spec()));
            let name = path.display().to_string();
            match checked {
                Ok(team) => {
                    doctor.says(&name, Ok(format!("team {}", team.name)))?;
                    team
                }
                Err(error) => {
                    doctor.says(&name, Err(error.to_string()))?;
                    TeamSpec::new(AgentSpec::new("doctor"))
                }
            }
        }
    };
    match default_model::define(&mut team, &registry, &arguments.model) {
        Ok(()) => doctor.models(&team, registry, &arguments).await?,
        Err(failure) => doctor.says("model", Err(failure.to_string()))?,
    }
    doctor.store(&arguments).await?;
    Ok(if doctor.ill { Exit::Failed } else { Exit::Done })
}

struct Doctor {
    /// Whether a check failed.
    ill: bool,
}

impl Doctor {
    fn says(&mut self, what: &str, found: Result<String, String>) -> Result<(), Failure> {
        let (mark, text) = match &found {
            Ok(text) => ("ok", text),
            Err(text) => ("!!", text),
        };
        self.ill |= found.is_err();
        let text = plain_text::plain(text);
        super::print(&format!("{mark}  {what}: {}", text.replace('\n', "\n    ")))
    }

    fn settings(&mut self) -> Result<(), Failure> {
        let settings = match user_config::path() {
            Some(path) if path.exists() => path.display().to_string(),
            Some(path) => format!("none, {} is not there", path.display()),
            None => "none, and no place for them: HOME is not set".to_owned(),
        };
        self.says("settings", Ok(settings))?;
        let names = [
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "OPENAI_MODEL",
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            #[cfg(feature = "full")]
            "AWS_REGION",
        ];
        let told = names.map(|name| match environment::variable(name) {
            None => format!("{name} is not set"),
            Some(value) if name.ends_with("_KEY") => {
                format!("{name} is set ({} characters)", value.chars().count())
            }
            Some(value) => format!("{name} is {}", plain_text::line(&value, 100)),
        });
        self.says("environment", Ok(told.join(", ")))
    }

    /// Asks each model of the team for one word.
    async fn models(
        &mut self,
        team: &TeamSpec,
        registry: Registry,
        arguments: &Arguments,
    ) -> Result<(), Failure> {
        let mut only = TeamSpec::new(AgentSpec::new("doctor"));
        only.models.clone_from(&team.models);
        let registry = match registry.resolve(&only) {
            Ok(registry) => registry,
            Err(error) => return self.says("model", Err(error.to_string())),
        };
        let mut models: Vec<_> = registry.models().collect();
        models.sort_by_key(|(name, _)| *name);
        for (name, model) in models {
            let about = model.description();
            let what = format!("model {name}");
            if arguments.offline {
                self.says(&what, Ok(format!("{about}, not asked")))?;
                continue;
            }
            let began = Instant::now();
            let request =
                ModelRequest::new([Message::user("Say the word: ready")].into_iter().collect());
            let asked = model.respond(request, ModelContext::detached());
            let found = match tokio::time::timeout(PATIENCE, asked).await {
                Ok(Ok(answer)) => {
                    let (text, took) = (answer.message.content(), began.elapsed().as_millis());
                    Ok(format!(
                        "{about} answers in {took} ms: {}",
                        plain_text::line(&text, 60)
                    ))
                }
                Ok(Err(error)) => Err(format!("{about}: {error}")),
                Err(_) => Err(format!(
                    "{about} did not answer within {} s",
                    PATIENCE.as_secs()
                )),
            };
            let answers = found.is_ok();
            self.says(&what, found)?;
            for ability in Ability::ALL
                .into_iter()
                .filter(|_| arguments.tries && answers)
            {
                let found = trying::tried(model, ability).await;
                super::print(&format!("    {}", plain_text::plain(&found)))?;
            }
        }
        Ok(())
    }

    async fn store(&mut self, arguments: &Arguments) -> Result<(), Failure> {
        let location = keeping::location_of(&arguments.store)?;
        let keeping = match Keeping::open_to_read(&arguments.store).await {
            Ok(Some(keeping)) => keeping,
            Ok(None) => {
                let text = format!("{location} is not there yet; the first run makes it");
                return self.says("store", Ok(text));
            }
            Err(failure) => return self.says("store", Err(failure.to_string())),
        };
        let name = keeping.store.description();
        let sound = location.verify().await;
        let sound = sound.map(|found| format!("{name}: {found}"));
        self.says("store", sound.map_err(|error| error.to_string()))?;
        let mut filter = RunFilter::default();
        (filter.roots, filter.open) = (true, true);
        let open = match keeping.store.runs(filter).await {
            Ok(open) => open,
            Err(error) => return self.says("open runs", Err(error.to_string())),
        };
        let count = |status| open.iter().filter(|row| row.status == status).count();
        let (waiting, parked) = (count(RunStatus::Waiting), count(RunStatus::Parked));
        let text = format!(
            "{}, of them {waiting} waiting and {parked} parked",
            open.len()
        );
        self.says("open runs", Ok(text))
    }
}
