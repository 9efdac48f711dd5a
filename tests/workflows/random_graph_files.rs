//! Random graphs of files, against an interpreter that walks their plans by hand.

use std::collections::BTreeMap;

use ghostlight_actors::{
    actor::System,
    definition::BehaviorSpec,
    run::{Agent, RunContext},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{Event, Outcome},
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A part of a plan. Values are called `v0` to `v2`.
#[derive(Clone, Debug)]
enum Piece {
    /// Puts a letter behind a value.
    Add(usize, char),
    /// Has an agent say something of a value.
    Ask(usize),
    /// One or the other, by whether a value has a letter.
    If(usize, char, Vec<Piece>, Vec<Piece>),
    /// Again and again, until its end was reached so often in all.
    Times(u64, Vec<Piece>),
    /// Side by side.
    All(Vec<Vec<Piece>>),
    /// In a graph within.
    Within(Vec<Piece>),
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let letter = prop::sample::select(vec!['a', 'b', 'c']);
    let plain = prop_oneof![
        3 => (0usize..3, letter.clone()).prop_map(|(value, letter)| Piece::Add(value, letter)),
        1 => (0usize..3).prop_map(Piece::Ask),
    ];
    let piece = plain.prop_recursive(3, 14, 3, move |below| {
        let some = prop::collection::vec(below, 1..3);
        prop_oneof![
            (0usize..3, letter.clone(), some.clone(), some.clone())
                .prop_map(|(value, letter, yes, no)| Piece::If(value, letter, yes, no)),
            (1u64..4, some.clone()).prop_map(|(times, body)| Piece::Times(times, body)),
            prop::collection::vec(some.clone(), 1..4).prop_map(Piece::All),
            some.prop_map(Piece::Within),
        ]
    });
    prop::collection::vec(piece, 1..5)
}

/// Makes nodes of a plan, from its end on.
#[derive(Default)]
struct Nodes {
    nodes: Map<String, Value>,
    /// How many nodes there are, also of graphs within, so that no two have one name.
    made: usize,
}

impl Nodes {
    fn name(&mut self) -> String {
        self.made += 1;
        format!("n{}", self.made)
    }

    fn add(&mut self, node: Value) -> String {
        let name = self.name();
        self.nodes.insert(name.clone(), node);
        name
    }

    /// The node with which these begin, when they lead to `next`.
    fn all(&mut self, pieces: &[Piece], next: &str, merge: &Value) -> String {
        let mut next = next.to_owned();
        for piece in pieces.iter().rev() {
            next = self.one(piece, &next, merge);
        }
        next
    }

    fn one(&mut self, piece: &Piece, next: &str, merge: &Value) -> String {
        match piece {
            Piece::Add(value, letter) => {
                let set = json!({ format!("v{value}"): format!("{{v{value}}}{letter}") });
                self.add(json!({"set": set, "then": next}))
            }
            Piece::Ask(value) => self.add(json!({
                "agent": "a",
                "prompt": format!("{{v{value}}}"),
                "into": format!("v{value}"),
                "then": next,
            })),
            Piece::If(value, letter, yes, no) => {
                let (yes, no) = (self.all(yes, next, merge), self.all(no, next, merge));
                let rule = json!({"contains": { format!("v{value}"): letter }});
                self.add(json!({"then": [{"when": rule, "to": yes}, {"to": no}]}))
            }
            Piece::Times(times, body) => {
                let last = self.name();
                let first = self.all(body, &last, merge);
                let again = json!({"below": { format!("{last}.times"): times }});
                let then = json!([{"when": again, "to": first}, {"to": next}]);
                self.nodes.insert(last, json!({ "then": then }));
                first
            }
            Piece::All(branches) => {
                let join = self.add(json!({ "then": next }));
                let begins: Vec<String> = branches
                    .iter()
                    .map(|branch| self.all(branch, &join, merge))
                    .collect();
                self.add(json!({"then": {"all": begins, "join": join}}))
            }
            Piece::Within(pieces) => {
                let mut within = Self {
                    made: self.made,
                    ..Self::default()
                };
                let entry = within.all(pieces, "end", merge);
                self.made = within.made;
                let nodes = within.nodes;
                let graph =
                    json!({"entry": entry, "nodes": nodes, "merge": merge, "max_steps": 9999});
                self.add(json!({"graph": graph, "then": next}))
            }
        }
    }
}

/// The plain interpreter: the values, what the agent was asked, and which values are lists where
/// branches meet.
struct Walk<'a> {
    appends: &'a [bool; 3],
    asked: Vec<String>,
}

type Values = BTreeMap<String, Value>;

fn text(values: &Values, value: usize) -> String {
    match &values[&format!("v{value}")] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Walk<'_> {
    fn all(&mut self, pieces: &[Piece], at: &str, values: &mut Values) {
        for (place, piece) in pieces.iter().enumerate() {
            self.one(piece, &format!("{at}.{place}"), values);
        }
    }

    fn one(&mut self, piece: &Piece, at: &str, values: &mut Values) {
        match piece {
            Piece::Add(value, letter) => {
                let added = format!("{}{letter}", text(values, *value));
                values.insert(format!("v{value}"), added.into());
            }
            Piece::Ask(value) => {
                let asked = text(values, *value);
                values.insert(format!("v{value}"), format!("a({asked})").into());
                self.asked.push(asked);
            }
            Piece::If(value, letter, yes, no) => match text(values, *value).contains(*letter) {
                true => self.all(yes, &format!("{at}y"), values),
                false => self.all(no, &format!("{at}n"), values),
            },
            Piece::Times(times, body) => loop {
                self.all(body, at, values);
                let so_far = values.get(at).and_then(Value::as_u64).unwrap_or(0) + 1;
                values.insert(at.to_owned(), so_far.into());
                if so_far >= *times {
                    break;
                }
            },
            Piece::All(branches) => {
                let fork = values.clone();
                for (place, branch) in branches.iter().enumerate() {
                    let mut own = fork.clone();
                    self.all(branch, &format!("{at}/{place}"), &mut own);
                    for (name, value) in own {
                        if fork.get(&name) == Some(&value) {
                            continue;
                        }
                        let place = ["v0", "v1", "v2"].iter().position(|v| *v == name);
                        let appends = place.is_some_and(|place| self.appends[place]);
                        let merged = match values.get(&name) {
                            Some(Value::Array(list)) if appends => {
                                list.iter().cloned().chain([value]).collect()
                            }
                            Some(before) if appends => json!([before, value]),
                            _ => value,
                        };
                        values.insert(name, merged);
                    }
                }
            }
            Piece::Within(pieces) => self.all(pieces, &format!("{at}w"), values),
        }
    }
}

/// What comes of a graph, and what its agent was asked.
async fn walked(settings: Value) -> (Outcome, Vec<String>) {
    let a = Agent::from_fn("a", |cx: RunContext| async move {
        let asked = cx.input().content();
        cx.emit("asked", &asked);
        Ok(Outcome::answer(format!("a({asked})")))
    });
    let desk = Agent::new("desk")
        .behavior(BehaviorSpec::new("graph").settings(settings))
        .agent(a);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::workflows::register(
            ghostlight_actors::run::Registry::new(),
        ))
        .model("default", ScriptedModel::hanging())
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    let records = run.events().so_far().await.unwrap();
    let asked = records.into_iter().filter_map(|record| match record.event {
        Event::Custom { name, data } if name == "asked" => data.as_str().map(str::to_owned),
        _ => None,
    });
    let asked = asked.collect();
    system.stop().await.unwrap();
    (outcome, asked)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_graph_of_a_file_comes_to_what_a_plain_interpreter_says(
        pieces in pieces(), appends in any::<[bool; 3]>(),
    ) {
        let merge: Map<String, Value> = (0..3)
            .map(|value| {
                let rule = if appends[value] { "append" } else { "last" };
                (format!("v{value}"), rule.into())
            })
            .collect();
        let merge = Value::Object(merge);
        let mut nodes = Nodes::default();
        let entry = nodes.all(&pieces, "end", &merge);
        let settings = json!({
            "entry": entry,
            "nodes": nodes.nodes,
            "values": {"v0": "", "v1": "", "v2": ""},
            "merge": merge,
            "answer": "{v0}|{v1}|{v2}",
            "max_steps": 9999,
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let (outcome, mut asked) = runtime.block_on(walked(settings));

        let values = (0..3).map(|value| (format!("v{value}"), Value::from("")));
        let mut values: Values = values.collect();
        let mut walk = Walk { appends: &appends, asked: Vec::new() };
        walk.all(&pieces, "", &mut values);
        let expected: Vec<String> = (0..3).map(|value| text(&values, value)).collect();
        prop_assert_eq!(outcome, Outcome::answer(expected.join("|")));
        // Branches take turns in an order of their own.
        asked.sort();
        walk.asked.sort();
        prop_assert_eq!(asked, walk.asked);
    }
}
