//! Teams that are graphs, as the page draws them.

use serde_json::{Value, json};

use super::{Desk, browser, drive, free, hostile, pictures, serve};

/// A team that is a graph with each kind of way, one of a thousand nodes, and one whose names would act as markup.
fn workflows() -> [(&'static str, Value); 3] {
    let team = |name: &str, entry: &str, nodes: Value| {
        let behavior = json!({ "name": "graph", "entry": entry, "nodes": nodes });
        let below = json!([
            { "name": "writer", "behavior": "stage" }, { "name": "critic", "behavior": "stage" },
        ]);
        json!({ "name": name, "agent": { "name": name, "behavior": behavior, "tools": ["echo"], "agents": below } })
    };
    let review = json!({
        "draft": { "agent": "writer", "then": { "all": ["facts", "style"], "join": "judge" }, "into": "text" },
        "facts": { "tool": "echo", "arguments": { "text": "x" }, "then": "judge" },
        "style": { "then": "judge", "graph": { "entry": "within", "nodes": { "within": { "then": "end" } } } },
        "judge": { "agent": "critic", "on_failure": "excuse", "then": [
            { "when": { "any": [{ "contains": { "judge": "APPROVED" } }, { "at_least": { "draft.times": 3 } }] }, "to": "publish" },
            { "to": "draft" },
        ] },
        "publish": { "confirm": "Shall it be published?", "then": "end" },
        "excuse": { "set": { "text": "Nothing." }, "then": "end" },
    });
    // Twenty ways out of each, which is far more than can be drawn.
    let to = |number: usize| match number {
        1000.. => "end".to_owned(),
        _ => format!("n{number}"),
    };
    let large = (0..1000).map(|number| {
        let ways = (1..=20).map(|far| match far {
            20 => json!({ "to": to(number + far) }),
            far => json!({ "when": { "has": "x" }, "to": to(number + far) }),
        });
        (to(number), json!({ "then": ways.collect::<Vec<_>>() }))
    });
    // Variables are put into values and not into keys.
    let markup = hostile().into_iter();
    let markup = markup.filter(|text| text.len() < 500 && !text.contains('$'));
    let markup: Vec<String> = markup.collect();
    let next = |at: usize| markup.get(at + 1).map_or("end", String::as_str);
    let acts = markup.iter().enumerate().map(|(at, name)| {
        let ways = json!([
            { "when": { "contains": { name: name } }, "to": next(at) }, { "to": "end" },
        ]);
        (name.clone(), json!({ "confirm": name, "then": ways }))
    });
    [
        ("review", team("review", "draft", review)),
        ("large", team("large", "n0", Value::Object(large.collect()))),
        (
            "markup",
            team("markup", &markup[0], Value::Object(acts.collect())),
        ),
    ]
}

/// A team that is a graph is drawn as its graph: in the browser, whatever its size and whatever its names say.
#[test]
fn a_team_that_is_a_graph_is_drawn_with_its_conditions_and_its_loops() {
    let Some(home) = browser() else { return };
    let desk = Desk::new("stage", json!({}));
    let mut serving = Vec::new();
    let mut addresses = serde_json::Map::new();
    for (name, team) in workflows() {
        desk.write("team.yaml", &as_yaml(&team));
        let at = free();
        serving.push(serve(&desk, &at));
        addresses.insert(name.to_owned(), json!(format!("http://{at}")));
    }
    let arguments = json!({ "at": addresses, "pictures": pictures("workflows") });
    drive(&home, "workflows", &arguments, |word| panic!("{word:?}"));
    for serving in serving {
        serving.signal("INT");
        serving.ends().exits(0);
    }
}

/// JSON is YAML, but for characters that YAML wants to be written as escapes.
pub(super) fn as_yaml(team: &Value) -> String {
    let escape = |c: char| match c {
        ' '..='~' => c.to_string(),
        other => other
            .encode_utf16(&mut [0; 2])
            .iter()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect(),
    };
    // A dollar would begin the name of a variable.
    let team = team.to_string().replace('$', "$$");
    team.chars().map(escape).collect()
}
