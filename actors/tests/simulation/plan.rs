//! What agents do, drawn from a seed.

use ghostlight_actors::{
    contract::{Entropy, SeededEntropy},
    vocabulary::ParentPolicy,
};

pub(crate) const TOOLS: [&str; 6] = ["look", "put", "charge", "wipe", "order", "nothing"];
const CHILDREN: [&str; 3] = ["helper", "asker", "nobody"];

/// What agents do, one after the other.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Some calls of tools, side by side.
    Tools(Vec<&'static str>),
    /// A conversation with a model, with the tools that it asks for.
    Talk,
    /// Some children, side by side.
    Delegate(Vec<&'static str>),
    /// A child that goes on beside the next steps, and is waited for.
    Spawn,
    /// A child that goes on in a journal for each word that it is told.
    Tell,
    Ask,
    Sleep(u64),
    Receive,
    /// Two branches, of which one wins.
    Race,
    Count,
    Remember,
    Emit,
    /// An effect of the function's own.
    Own,
    Draw,
    /// What is to be called when the run is cancelled.
    Undo,
    /// More operations than a runtime polls in one go.
    Long,
    /// What the first process's code does not have, and that of all later ones does.
    Added,
    /// A child whose own child asks a person.
    Nested,
    /// Events for a child that reads slower than they are published.
    Publish,
    /// A child that nobody waits for, and what becomes of it when its parent ends.
    Leave(ParentPolicy),
}

/// How an agent ends its part of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    Answer,
    HandOver,
    GoOn,
    Fail,
}

/// What the agents of a team do.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) lead: Vec<Step>,
    pub(crate) helper: Vec<Step>,
    pub(crate) closer: Vec<Step>,
    pub(crate) end: End,
    /// How the helper ends, a child.
    pub(crate) helper_end: End,
    /// Whether a policy watches over the agents.
    pub(crate) is_watched: bool,
}

pub(crate) struct Draw(pub(crate) SeededEntropy);

impl Draw {
    pub(crate) fn below(&self, bound: u64) -> u64 {
        (self.0.bits() % u128::from(bound)) as u64
    }

    fn one_of<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn some_of<T: Copy>(&self, of: &[T], most: u64) -> Vec<T> {
        let many = 1 + self.below(most);
        (0..many).map(|_| self.one_of(of)).collect()
    }

    fn step(&self, deep: bool) -> Step {
        match self.below(if deep { 26 } else { 11 }) {
            0..3 => Step::Tools(self.some_of(&TOOLS, 3)),
            3 | 4 => Step::Talk,
            5 => Step::Sleep(self.below(1_200)),
            6 => Step::Count,
            7 => Step::Remember,
            8 => Step::Own,
            9 => Step::Draw,
            10 => Step::Emit,
            11 => Step::Ask,
            12 => Step::Receive,
            13 => Step::Race,
            14 => Step::Spawn,
            15 | 16 => Step::Tell,
            17 => Step::Undo,
            18 => Step::Long,
            19 => Step::Nested,
            20 | 21 => Step::Added,
            22 | 23 => Step::Publish,
            _ => Step::Leave(self.one_of(&[
                ParentPolicy::Stop,
                ParentPolicy::Continue,
                ParentPolicy::Adopt,
            ])),
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        let steps = |most, deep| (0..1 + self.below(most)).map(|_| self.step(deep)).collect();
        let mut lead: Vec<Step> = steps(5, true);
        // Children make a tree of it, so most have some.
        if self.below(3) > 0 {
            let place = self.below(lead.len() as u64 + 1) as usize;
            lead.insert(place, Step::Delegate(self.some_of(&CHILDREN, 3)));
        }
        // A message that comes twice shows only where another one is received later.
        if lead.iter().any(|step| matches!(step, Step::Receive)) {
            lead.extend([Step::Sleep(self.below(1_200)), Step::Receive]);
        }
        Plan {
            lead,
            helper: steps(3, false),
            closer: steps(2, false),
            end: self.one_of(&[
                End::Answer,
                End::Answer,
                End::Answer,
                End::HandOver,
                End::GoOn,
                End::Fail,
            ]),
            helper_end: self.one_of(&[End::Answer, End::Answer, End::GoOn, End::HandOver]),
            is_watched: self.below(2) == 0,
        }
    }
}
