//! A plan whose steps name the evidence that they need.

use std::collections::{BTreeMap, BTreeSet};

use ghostlight_actors::vocabulary::{Message, ModelResponse, ToolSet};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    behaviors::{ModelTurn, NativeCalls, Reading, TurnFormat},
    structured_output,
};

/// The name by which a plan calls the model itself instead of a tool.
pub(super) const MODEL: &str = "llm";

/// One step of a plan: a tool call whose result is evidence for later steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Step {
    /// The name of its evidence, such as `E1`.
    pub(super) id: String,
    /// What it is for.
    #[serde(default, alias = "plan", alias = "thought")]
    pub(super) purpose: String,
    /// The tool, or [`MODEL`].
    pub(super) tool: String,
    /// The arguments, in whose texts `#E1` stands for that evidence.
    #[serde(default, alias = "arguments", alias = "args")]
    pub(super) input: Value,
}

impl Step {
    /// The evidence that the step needs.
    pub(super) fn needs(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        each_text(&self.input, &mut |text| {
            found.extend(references(text).into_iter().map(|(_, id)| id.to_owned()));
        });
        found
    }

    /// The input with references replaced by evidence.
    pub(super) fn filled(&self, evidence: &BTreeMap<String, String>) -> Value {
        fill(&self.input, evidence)
    }
}

fn each_text(value: &Value, see: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, see)),
        Value::Object(members) => members.values().for_each(|member| each_text(member, see)),
        _ => {}
    }
}

fn fill(value: &Value, evidence: &BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) => Value::String(fill_text(text, evidence)),
        Value::Array(items) => items.iter().map(|item| fill(item, evidence)).collect(),
        Value::Object(members) => {
            let filled = members
                .iter()
                .map(|(name, value)| (name.clone(), fill(value, evidence)));
            Value::Object(filled.collect())
        }
        other => other.clone(),
    }
}

fn fill_text(text: &str, evidence: &BTreeMap<String, String>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = 0;
    for (place, id) in references(text) {
        if let Some(found) = evidence.get(id) {
            filled.push_str(&text[rest..place]);
            filled.push_str(found);
            rest = place + 1 + id.len();
        }
    }
    filled.push_str(&text[rest..]);
    filled
}

/// The names such as `E1` that follow a `#`, each with the position of its `#`. `#E1` is not part
/// of `#E10`.
fn references(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (place, _) in text.match_indices("#E") {
        let digits = text[place + 2..]
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
        if digits > 0 {
            found.push((place, &text[place + 1..place + 2 + digits]));
        }
    }
    found
}

/// Parses a planner's answer, and returns it for correction if it cannot be carried out.
#[derive(Clone, Debug)]
pub(super) struct PlanReader {
    /// The tools that the plan may use.
    pub(super) tools: ToolSet,
    /// Evidence that already exists.
    pub(super) known: BTreeSet<String>,
    /// The fewest steps.
    pub(super) min: usize,
    /// The most steps.
    pub(super) max: usize,
}

impl TurnFormat for PlanReader {
    fn read(&self, response: &ModelResponse, step: u32) -> Reading {
        let reading = NativeCalls.read(response, step);
        let ModelTurn::Answer(text) = &reading.turn else {
            return reading;
        };
        let planned = read(text, &self.tools).and_then(|steps| self.check(steps));
        let turn = match planned.map(|steps| serde_json::to_string(&steps)) {
            Ok(Ok(json)) => ModelTurn::Answer(json),
            Ok(Err(error)) => ModelTurn::Unreadable(error.to_string()),
            Err(reason) => {
                let feedback = format!(
                    "This plan cannot be carried out: {reason}\nWrite the whole plan again."
                );
                ModelTurn::Unreadable(feedback)
            }
        };
        let said = Message {
            author: reading.said.author,
            ..Message::assistant(text.clone())
        };
        Reading::new(said, turn)
    }
}

impl PlanReader {
    /// Checks that every step can be done, and sorts the steps so that each comes after the steps
    /// it needs.
    fn check(&self, steps: Vec<Step>) -> Result<Vec<Step>, String> {
        if !(self.min..=self.max).contains(&steps.len()) {
            let (min, max, found) = (self.min, self.max, steps.len());
            return Err(format!(
                "it must have {min} to {max} steps, and has {found}."
            ));
        }
        let mut ids = BTreeSet::new();
        for step in &steps {
            let Step { id, tool, .. } = step;
            let digits = id.strip_prefix('E').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(format!(
                    "{id:?} is not a name of evidence: use E1, E2 and so on."
                ));
            }
            if self.known.contains(id) || !ids.insert(id.clone()) {
                return Err(format!(
                    "{id} is there twice: each step has a name of its own."
                ));
            }
            if tool != MODEL && self.tools.get(tool).is_none() {
                let names = self.tools.iter().map(|tool| tool.name.as_str());
                let names: Vec<&str> = names.chain([MODEL]).collect();
                let names = names.join(", ");
                return Err(format!(
                    "{id} uses {tool:?}, which does not exist; there are: {names}."
                ));
            }
        }
        for step in &steps {
            let known = |id: &String| ids.contains(id) || self.known.contains(id);
            if let Some(missing) = step.needs().into_iter().find(|id| !known(id)) {
                return Err(format!(
                    "{} needs #{missing}, which no step makes.",
                    step.id
                ));
            }
        }
        self.in_order(steps)
    }

    fn in_order(&self, mut steps: Vec<Step>) -> Result<Vec<Step>, String> {
        let mut made = self.known.clone();
        let mut ordered = Vec::with_capacity(steps.len());
        while !steps.is_empty() {
            let Some(place) = steps.iter().position(|step| step.needs().is_subset(&made)) else {
                let circle: Vec<&str> = steps.iter().map(|step| step.id.as_str()).collect();
                let circle = circle.join(", ");
                return Err(format!(
                    "these steps need each other in a circle: {circle}."
                ));
            };
            let step = steps.remove(place);
            made.insert(step.id.clone());
            ordered.push(step);
        }
        Ok(ordered)
    }
}

/// The steps in a text: JSON with `steps`, or lines such as `#E1 = search[{"query": "x"}]`.
fn read(text: &str, tools: &ToolSet) -> Result<Vec<Step>, String> {
    let value = structured_output::read(text).map(|reading| reading.value);
    let listed = match &value {
        Ok(Value::Object(members)) => members.get("steps"),
        Ok(list @ Value::Array(_)) => Some(list),
        _ => None,
    };
    let lines = || read_lines(text, tools);
    let Some(listed) = listed else {
        let steps = lines();
        return match steps.is_empty() {
            true => Err("no steps were found.".to_owned()),
            false => Ok(steps),
        };
    };
    let steps: Result<Vec<Step>, _> = serde_json::from_value(listed.clone());
    match steps {
        Ok(steps) => Ok(steps.into_iter().map(|step| normal(step, tools)).collect()),
        Err(error) => {
            let steps = lines();
            if steps.is_empty() {
                Err(format!("{error}."))
            } else {
                Ok(steps)
            }
        }
    }
}

fn read_lines(text: &str, tools: &ToolSet) -> Vec<Step> {
    let mut purpose = String::new();
    let mut steps = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(plan) = line.strip_prefix("Plan:") {
            purpose = plan.trim().to_owned();
        }
        if let Some(step) = step_of_line(line, &purpose) {
            steps.push(normal(step, tools));
            purpose.clear();
        }
    }
    steps
}

fn step_of_line(line: &str, purpose: &str) -> Option<Step> {
    let (before, call) = line.split_once('=')?;
    let id = before.rsplit_once('#')?.1.trim();
    let (tool, input) = call.trim().split_once('[')?;
    let input = input.trim_end().strip_suffix(']')?.trim();
    let object = structured_output::read(input)
        .ok()
        .map(|reading| reading.value);
    let input = object
        .filter(Value::is_object)
        .unwrap_or_else(|| Value::String(input.to_owned()));
    Some(Step {
        id: id.to_owned(),
        purpose: purpose.to_owned(),
        tool: tool.trim().to_owned(),
        input,
    })
}

/// A step in normal form: its name without `#`, the tool's name in its registered spelling, and an
/// object as input. A bare text becomes the only argument.
fn normal(mut step: Step, tools: &ToolSet) -> Step {
    step.id = step.id.trim().trim_start_matches('#').to_owned();
    let wanted = step.tool.trim().to_owned();
    let named = tools
        .iter()
        .find(|tool| tool.name.eq_ignore_ascii_case(&wanted));
    step.tool = match named {
        Some(tool) => tool.name.clone(),
        None if wanted.eq_ignore_ascii_case(MODEL) => MODEL.to_owned(),
        None => wanted,
    };
    step.input = match step.input {
        Value::Null => Value::Object(Map::new()),
        text @ Value::String(_) => {
            let argument = named.and_then(|tool| {
                tool.parameters
                    .get("properties")?
                    .as_object()?
                    .keys()
                    .next()
                    .cloned()
            });
            let argument = argument.unwrap_or_else(|| "prompt".to_owned());
            Value::Object(Map::from_iter([(argument, text)]))
        }
        other => other,
    };
    step
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::vocabulary::ToolDefinition;
    use proptest::prelude::{Just, Strategy as _, prop, prop_assert, prop_assert_eq, proptest};
    use serde_json::json;

    use super::*;

    fn reader() -> PlanReader {
        let properties = json!({"type": "object", "properties": {"query": {"type": "string"}}});
        let search = ToolDefinition::new("search", "Searches.").parameters(properties);
        PlanReader {
            tools: [search].into_iter().collect(),
            known: BTreeSet::new(),
            min: 1,
            max: 4,
        }
    }

    fn planned(text: &str) -> Result<Vec<Step>, String> {
        match reader().read(&ModelResponse::text(text), 1).turn {
            ModelTurn::Answer(json) => Ok(serde_json::from_str(&json).unwrap()),
            ModelTurn::Unreadable(reason) => Err(reason),
            other => panic!("{other:?}"),
        }
    }

    fn step(id: &str, tool: &str, input: Value) -> Step {
        Step {
            id: id.into(),
            purpose: String::new(),
            tool: tool.into(),
            input,
        }
    }

    #[test]
    fn plans_are_read_as_json_and_as_lines() {
        let expected = vec![
            step("E1", "search", json!({"query": "price"})),
            step("E2", "llm", json!({"prompt": "add VAT to #E1"})),
        ];
        for text in [
            r##"{"steps": [{"id": "E1", "tool": "search", "input": {"query": "price"}},
                {"id": "#E2", "tool": "LLM", "arguments": "add VAT to #E1"}]}"##,
            "#E1 = Search[price]\n#E2 = LLM[add VAT to #E1]",
            "#E1 = search[{\"query\": \"price\"}]\nand\n#E2 = llm[{'prompt': 'add VAT to #E1'}]",
        ] {
            assert_eq!(planned(text).unwrap(), expected, "{text}");
        }
        let with_purpose = planned("Plan: look it up.\n#E1 = search[price]").unwrap();
        assert_eq!(with_purpose[0].purpose, "look it up.");
    }

    #[test]
    fn a_plan_that_cannot_be_carried_out_is_refused_with_the_reason() {
        for (text, reason) in [
            ("I would search.", "no steps were found"),
            (r#"{"steps": []}"#, "must have 1 to 4 steps"),
            (
                "#E1 = browse[x]",
                "uses \"browse\", which does not exist; there are: search, llm",
            ),
            ("#E1 = search[a]\n#E1 = search[b]", "E1 is there twice"),
            ("#one = search[a]", "not a name of evidence"),
            ("#E1 = search[#E7]", "E1 needs #E7, which no step makes"),
            (
                "#E1 = search[#E2]\n#E2 = search[#E3]\n#E3 = search[#E1]",
                "in a circle: E1, E2, E3",
            ),
            (r#"{"steps": [{"id": "E1"}]}"#, "missing field `tool`"),
        ] {
            let told = planned(text).unwrap_err();
            assert!(told.contains(reason), "{told}");
        }
    }

    #[test]
    fn evidence_is_put_in_everywhere_and_only_where_it_is_named() {
        let input = json!({"a": "#E1 and #E10", "b": ["#E1#E2"], "c": "E1 # #E #Ex", "d": 1});
        let step = step("E3", "search", input);
        let needs: Vec<String> = step.needs().into_iter().collect();
        assert_eq!(needs, ["E1", "E10", "E2"]);
        let evidence = [("E1", "one"), ("E10", "ten"), ("E2", "#E1")];
        let evidence = evidence.map(|(id, text)| (id.to_owned(), text.to_owned()));
        let filled = step.filled(&BTreeMap::from(evidence));
        assert_eq!(
            filled,
            json!({"a": "one and ten", "b": ["one#E1"], "c": "E1 # #E #Ex", "d": 1})
        );
    }

    proptest! {
        /// Any plan without cycles is sorted so that each step comes after the steps it needs,
        /// whatever the order in the text.
        #[test]
        fn steps_follow_what_they_need(
            (order, needs) in prop::collection::vec(prop::collection::vec(0_usize..8, 0..3), 1..8)
                .prop_flat_map(|needs| (Just((0..needs.len()).collect::<Vec<_>>()).prop_shuffle(), Just(needs))),
        ) {
            let made = |place: usize| {
                let needs: Vec<String> = needs[place].iter().filter(|need| **need < place).map(|need| format!("#E{need}")).collect();
                step(&format!("E{place}"), "search", json!({"query": needs.join(" ")}))
            };
            let steps: Vec<Step> = order.iter().map(|place| made(*place)).collect();
            let mut reader = reader();
            reader.max = 8;
            let ordered = reader.check(steps.clone()).unwrap();
            prop_assert_eq!(ordered.len(), steps.len());
            for (place, step) in ordered.iter().enumerate() {
                let before: BTreeSet<String> = ordered[..place].iter().map(|step| step.id.clone()).collect();
                prop_assert!(step.needs().is_subset(&before));
            }
        }
    }
}
