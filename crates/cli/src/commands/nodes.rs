//! `ghostlight store nodes`: the processes that have a shared store open, and how far each is behind.

use super::note;
use crate::{
    exit::{Exit, Failure},
    follow::print_json,
    keeping,
    location::{self, NodeRow},
    more_arguments::Nodes,
};

pub(super) async fn nodes(arguments: Nodes) -> Result<Exit, Failure> {
    let location = keeping::location_of(&arguments.store)?;
    match location::nodes(&location).await? {
        None => Err(Failure::Usage(format!(
            "{location} is a file, whose processes are those of one machine: name a store in PostgreSQL with \
             --store postgres://USER@HOST/DATABASE"
        ))),
        Some(nodes) => {
            if arguments.show.json {
                nodes.iter().try_for_each(print_json)?;
            } else {
                for node in &nodes {
                    super::print(&line(node))?;
                }
            }
            if nodes.iter().all(|node| node.node.is_none()) {
                note(&format!("no other process has {location} open"));
            }
            Ok(Exit::Done)
        }
    }
}

/// A node in columns.
fn line(node: &NodeRow) -> String {
    let seconds = |millis: u64| format!("{}.{} s", millis / 1_000, millis % 1_000 / 100);
    let name = node.node.as_deref().unwrap_or("nobody");
    let state = match (&node.node, node.lives) {
        (None, _) => "",
        (_, true) => "lives",
        (_, false) => "is gone",
    };
    let open = node.open_runs.map(|open| format!("{open} open runs"));
    let renewed = node
        .renewed_ms
        .map(|age| format!("renewed {} ago", seconds(age)));
    let oldest = node.oldest_ms.map(|age| format!("oldest {}", seconds(age)));
    let teams: Vec<String> = node
        .carries
        .iter()
        .map(|carried| match carried.version {
            0 => carried.team.clone(),
            version => format!("{} (version {version})", carried.team),
        })
        .collect();
    let teams = match (&node.node, teams.is_empty()) {
        (None, _) => String::new(),
        (_, true) => "no team".to_owned(),
        (_, false) => teams.join(", "),
    };
    let line = format!(
        "{name:<24} {state:<8} {:<20} {:<14} {:<10} {:<10} {:<14} {teams}",
        renewed.unwrap_or_default(),
        open.unwrap_or_default(),
        format!("{} late", node.late_runs),
        format!("{} unread", node.unread),
        oldest.unwrap_or_default(),
    );
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use ghostlight_actors::contract::CarriedTeam;

    use super::*;

    #[test]
    fn a_node_is_shown_in_columns_with_what_it_is_behind() {
        let mut node = NodeRow {
            node: Some("7-0123456789abcdef".to_owned()),
            lives: true,
            renewed_ms: Some(1_240),
            open_runs: Some(12),
            late_runs: 2,
            unread: 1,
            oldest_ms: Some(61_000),
            carries: vec![CarriedTeam {
                team: "desk".to_owned(),
                version: 2,
            }],
        };
        assert_eq!(
            line(&node),
            "7-0123456789abcdef       lives    renewed 1.2 s ago    12 open runs   2 late     1 unread   oldest 61.0 s  \
             desk (version 2)"
        );
        (node.node, node.lives, node.renewed_ms, node.open_runs) = (None, false, None, None);
        node.carries.clear();
        let words: Vec<String> = line(&node).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words.join(" "), "nobody 2 late 1 unread oldest 61.0 s");
    }
}
