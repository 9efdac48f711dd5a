#![allow(clippy::unwrap_used)]
//! However children reserve, consume and return, and wherever the books are read again, nothing
//! is overspent by more than the calls that were under way, and nothing is lost.

use proptest::prelude::*;

use super::*;
use crate::vocabulary::{Digest, Message, RunId, Usage};

fn operation(number: u32) -> OperationId {
    OperationId {
        leg: 0,
        lane: 0,
        number,
    }
}

fn books(budget: Budget) -> Ledger {
    let run = RunId::from_random(1);
    let mut start = RunStart::new(run, "t", "a", Digest([0; 32]), Message::user("go"));
    start.budget = budget;
    Ledger::of(&start)
}

fn bounded(model_calls: u64, tokens: u64) -> Budget {
    Budget {
        model_calls: Some(model_calls),
        tokens: Some(tokens),
        ..Budget::default()
    }
}

fn model_call(tokens: u64) -> Spent {
    Spent {
        model_calls: 1,
        usage: Usage {
            output_tokens: tokens,
            ..Usage::default()
        },
        ..Spent::default()
    }
}

#[test]
fn what_is_left_is_divided_to_the_last_unit() {
    for (left, parts) in [(3, 4), (10, 3), (0, 2), (7, 1), (100, 7)] {
        let mut ledger = books(bounded(left, 0));
        let mut granted = Vec::new();
        for child in 0..parts {
            let budget = ledger.grant(&Budget::default(), Part::Equal(parts - child), |_| 0);
            granted.push(budget.model_calls.unwrap());
            ledger.reserve(operation(child as u32), budget);
        }
        assert_eq!(granted.iter().sum::<u64>(), left, "{left} in {parts}");
        let (most, least) = (granted.iter().max(), granted.iter().min());
        assert!(most.unwrap() - least.unwrap() <= 1, "{granted:?}");
    }
}

#[test]
fn a_share_is_one_of_the_whole_and_never_more_than_is_left() {
    let mut ledger = books(bounded(10, 1000));
    ledger.charge(model_call(100));
    let half = ledger.grant(&Budget::default(), Part::Percent(50), |_| 0);
    assert_eq!((half.model_calls, half.tokens), (Some(5), Some(500)));
    ledger.reserve(operation(0), half);
    let rest = ledger.grant(&Budget::default(), Part::Percent(50), |_| 0);
    assert_eq!((rest.model_calls, rest.tokens), (Some(4), Some(400)));
    let wanted = bounded(1, 9999);
    let narrow = ledger.grant(&wanted, Part::Percent(100), |_| 0);
    assert_eq!((narrow.model_calls, narrow.tokens), (Some(1), Some(400)));
    assert_eq!(narrow.tool_calls, None, "what has no bound has none below");
}

#[test]
fn a_child_is_settled_once() {
    let mut ledger = books(bounded(10, 1000));
    ledger.reserve(operation(0), bounded(4, 400));
    assert_eq!(ledger.allowance().left(Resource::ModelCalls), Some(6));
    assert!(ledger.settle(operation(0)));
    assert!(!ledger.settle(operation(0)));
    assert_eq!(ledger.allowance().left(Resource::ModelCalls), Some(10));
    ledger.reserve(operation(1), bounded(4, 400));
    ledger.give(operation(1), &bounded(4, 400));
    assert!(!ledger.settle(operation(1)), "it is gone for good");
    assert_eq!(ledger.allowance().left(Resource::Tokens), Some(600));
}

#[test]
fn a_warning_is_given_once_for_each_share() {
    let mut ledger = books(bounded(10, 1000));
    let mut warnings = |resource, used, bound| ledger.warnings(resource, used, bound, &[50, 90]);
    let none = Vec::<u8>::new();
    let tokens = Resource::Tokens;
    assert_eq!(warnings(tokens, 499, 1000), none);
    assert_eq!(warnings(tokens, 500, 1000), [50]);
    assert_eq!(warnings(tokens, 500, 1000), none);
    let calls = Resource::ModelCalls;
    assert_eq!(warnings(calls, 9, 10), [50, 90]);
    assert_eq!(warnings(Resource::Entries, u64::MAX, 0), none);
    let shares_of_five = [2, 3, 4, 5].map(|used| warnings(Resource::CostMicros, used, 5));
    assert_eq!(shares_of_five, [vec![], vec![50], vec![], vec![90]]);
}

/// The fate of one node of a tree.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// It makes a model call of this many tokens, if it may.
    Call(usize, u64),
    /// It begins a child, with a share in percent or one of some equal parts.
    Begin(usize, Option<u8>, u64),
    /// It begins a child that keeps what it gets.
    Give(usize, u64),
    /// It ends, after those below it.
    End(usize),
    /// Every process dies: the books are read again.
    Crash,
}

fn happening() -> impl Strategy<Value = Happening> {
    let node = 0..12usize;
    prop_oneof![
        4 => (node.clone(), 0..300u64).prop_map(|(node, tokens)| Happening::Call(node, tokens)),
        2 => (node.clone(), prop::option::of(0..=100u8), 1..4u64)
            .prop_map(|(node, share, parts)| Happening::Begin(node, share, parts)),
        1 => (node.clone(), 1..4u64).prop_map(|(node, parts)| Happening::Give(node, parts)),
        2 => node.prop_map(Happening::End),
        1 => Just(Happening::Crash),
    ]
}

/// An entry of a node's journal, as far as its books read it.
#[derive(Clone)]
enum Noted {
    Charged(Spent),
    Reserved(OperationId, Budget),
    Given(OperationId, Budget),
    Settled(OperationId, Spent),
}

struct Node {
    ledger: Ledger,
    journal: Vec<Noted>,
    bounds: Budget,
    /// Its parent, and the operation there; a given one has none.
    parent: Option<(usize, OperationId)>,
    ended: bool,
    /// Its own consumption, children apart.
    own: Spent,
}

impl Node {
    fn new(bounds: Budget, parent: Option<(usize, OperationId)>) -> Self {
        Self {
            ledger: books(bounds),
            journal: Vec::new(),
            bounds,
            parent,
            ended: false,
            own: Spent::default(),
        }
    }

    fn note(&mut self, noted: Noted) {
        apply(&mut self.ledger, &noted);
        self.journal.push(noted);
    }

    fn read_again(&mut self) {
        let mut ledger = books(self.bounds);
        self.journal
            .iter()
            .for_each(|noted| apply(&mut ledger, noted));
        assert_eq!(ledger.allowance(), self.ledger.allowance());
        self.ledger = ledger;
    }
}

fn apply(ledger: &mut Ledger, noted: &Noted) {
    match noted {
        Noted::Charged(spent) => ledger.charge(*spent),
        Noted::Reserved(op, budget) => ledger.reserve(*op, *budget),
        Noted::Given(op, budget) => ledger.give(*op, budget),
        Noted::Settled(op, spent) => {
            if ledger.settle(*op) {
                ledger.charge(*spent);
            }
        }
    }
}

struct Tree {
    nodes: Vec<Node>,
    /// By how much calls went beyond what was left when they began.
    excess: u64,
    next: u32,
}

impl Tree {
    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Call(node, tokens) => self.call(node, tokens),
            Happening::Begin(node, share, parts) => {
                let part = share.map_or(Part::Equal(parts), Part::Percent);
                self.begin(node, part, false);
            }
            Happening::Give(node, parts) => self.begin(node, Part::Equal(parts), true),
            Happening::End(node) if node > 0 => self.end(node),
            Happening::End(_) => {}
            Happening::Crash => self.nodes.iter_mut().for_each(Node::read_again),
        }
    }

    fn live(&mut self, node: usize) -> Option<&mut Node> {
        self.nodes.get_mut(node).filter(|node| !node.ended)
    }

    fn call(&mut self, node: usize, tokens: u64) {
        let Some(node) = self.live(node) else { return };
        if node.ledger.exhausted(Resource::ModelCalls, || 0).is_some() {
            return;
        }
        let left = node.ledger.allowance().left(Resource::Tokens).unwrap();
        let spent = model_call(tokens);
        node.own += spent;
        node.note(Noted::Charged(spent));
        self.excess += tokens.saturating_sub(left);
    }

    fn begin(&mut self, place: usize, part: Part, given: bool) {
        self.next += 1;
        let op = operation(self.next);
        if self.nodes.len() >= 12 {
            return;
        }
        let Some(node) = self.live(place) else { return };
        let budget = node.ledger.grant(&Budget::default(), part, |_| 0);
        let noted = if given { Noted::Given } else { Noted::Reserved };
        node.note(noted(op, budget));
        let parent = (!given).then_some((place, op));
        self.nodes.push(Node::new(budget, parent));
    }

    fn end(&mut self, place: usize) {
        let below = |node: &Node| node.parent.is_some_and(|(above, _)| above == place);
        let children: Vec<usize> = (0..self.nodes.len())
            .filter(|child| below(&self.nodes[*child]))
            .collect();
        children.into_iter().for_each(|child| self.end(child));
        let Some(node) = self.live(place) else { return };
        node.ended = true;
        let (spent, parent) = (node.ledger.spent(), node.parent);
        if let Some((above, op)) = parent {
            // The word may come twice, as after a crash.
            self.nodes[above].note(Noted::Settled(op, spent));
            self.nodes[above].note(Noted::Settled(op, spent));
        }
    }

    fn consumed(&self) -> Spent {
        let mut all = Spent::default();
        self.nodes.iter().for_each(|node| all += node.own);
        all
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_is_overspent_and_nothing_is_lost(
        model_calls in 0..40u64,
        tokens in 0..3000u64,
        happenings in prop::collection::vec(happening(), 0..80),
    ) {
        let mut tree = Tree {
            nodes: vec![Node::new(bounded(model_calls, tokens), None)],
            excess: 0,
            next: 0,
        };
        for happening in happenings {
            tree.happen(happening);
            let consumed = tree.consumed();
            // Calls are counted before the act, so they are never overspent; tokens only by what
            // single calls took beyond what was left.
            prop_assert!(consumed.model_calls <= model_calls);
            prop_assert!(consumed.usage.total_tokens() <= tokens + tree.excess);
        }
        // When all has ended the root knows of every call: its own, and what it gave away.
        for node in (1..tree.nodes.len()).rev() {
            tree.end(node);
        }
        let root = tree.nodes[0].ledger.allowance();
        prop_assert_eq!(root.reserved, Amounts::default());
        let known = root.spent.model_calls + root.spent.given.model_calls;
        prop_assert!(known <= model_calls);
        let left = root.left(Resource::ModelCalls).unwrap();
        prop_assert_eq!(known + left, model_calls, "what is not consumed or given is left");
        let without_gifts = tree.nodes.iter().skip(1).all(|node| node.parent.is_some());
        if without_gifts {
            prop_assert_eq!(root.spent, tree.consumed());
        }
    }
}
