//! The plan of a team, drawn from a seed: a tree of operations and combinators for each agent's function.

use ghostlight_actors::{
    contract::{Entropy, SeededEntropy},
    vocabulary::{Effect, ParentPolicy},
};

/// How many operations' places the functions of one team have together, so that no program takes minutes.
const LARGEST: u32 = 60;

/// One act of a function, with its number in the whole plan. Keys and names are made of this number, so that they do not
/// depend on the order in which a function comes to its acts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf {
    pub(crate) number: u32,
    pub(crate) act: Act,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Tool(&'static str),
    Batch,
    Think,
    Talk,
    Sleep(u64),
    Random,
    Now,
    /// A step of the function's own.
    Own(Effect),
    Update,
    Remember,
    Passing,
    Emit,
    Undo,
    /// What the code of the first life does not have.
    Added,
    Ask,
    Receive,
    Delegate(&'static str),
    /// A child with a part of the budget.
    Share(u8),
    Spawn(&'static str, ParentPolicy),
    SpawnJoin(&'static str),
    TellSelf,
    Topic,
    /// A word on the topic that all agents share.
    Publish,
    /// The wait for such a word.
    Hear,
    Allowance,
    Save,
    Unpolled,
    Yield,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Leaf(Leaf),
    Seq(Vec<Node>),
    Join(Vec<Node>),
    Unordered(Vec<Node>),
    Branches(Vec<Node>),
    Race(Vec<Node>),
    Within(u64, Box<Node>),
    /// Side by side, as far as a semaphore lets them.
    Slots(Vec<Node>),
    /// Begun, left alone while the other goes on, and then awaited.
    Held(Leaf, Box<Node>),
    /// Polled once and dropped.
    Dropped(Box<Node>),
}

/// How a function ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    Answer,
    Transfer,
    /// A transfer after which the conversation comes back.
    Returning,
    GoOn,
    Fail,
}

/// The team of one seed and its work.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) lead: Node,
    pub(crate) one: Node,
    pub(crate) two: Node,
    pub(crate) closer: Node,
    pub(crate) end: End,
    pub(crate) one_end: End,
    /// Whether a policy watches over the agents.
    pub(crate) is_watched: bool,
    /// Whether the budget has an end.
    pub(crate) is_bounded: bool,
    /// The time after which a run is stopped amid whatever it does then.
    pub(crate) wall_time_ms: Option<u64>,
    pub(crate) turns: u64,
}

pub(crate) struct Draw(SeededEntropy);

/// Draws nodes, and numbers the acts in them.
struct Drawing<'a> {
    draw: &'a Draw,
    /// The next act's number.
    next: u32,
}

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed.rotate_left(17) ^ 0xabcd_1234))
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        (self.0.bits() % u128::from(bound)) as u64
    }

    pub(crate) fn one_of<T: Copy>(&self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    pub(crate) fn plan(&self) -> Plan {
        let mut drawing = Drawing {
            draw: self,
            next: 0,
        };
        // The children come first, since a bound that is reached early would leave them empty.
        let (one, two) = (drawing.node(2, false), drawing.node(2, false));
        // One that a child hands its run to has no children itself: they would hand theirs to it in turn, without end.
        let closer = drawing.node(2, false);
        let lead = Node::Seq(vec![drawing.node(3, true), drawing.node(3, true)]);
        let ends = [
            End::Answer,
            End::Answer,
            End::Transfer,
            End::Returning,
            End::GoOn,
            End::Fail,
        ];
        Plan {
            lead,
            one,
            two,
            closer,
            end: self.one_of(&ends),
            one_end: self.one_of(&[End::Answer, End::Answer, End::GoOn, End::Transfer]),
            is_watched: self.below(2) == 0,
            is_bounded: self.below(3) == 0,
            wall_time_ms: (self.below(4) == 0).then(|| 50 + self.below(1_500)),
            turns: 1 + self.below(2),
        }
    }

    fn act(&self, has_children: bool) -> Act {
        let agents = ["one", "two"];
        match self.below(if has_children { 39 } else { 27 }) {
            0..4 => Act::Tool(self.one_of(&["look", "put", "charge", "wipe"])),
            4 | 5 => Act::Batch,
            6 => Act::Think,
            7 | 8 => Act::Talk,
            9 => Act::Sleep(self.below(200)),
            10 => Act::Random,
            11 => Act::Own(self.one_of(&[Effect::Once, Effect::Idempotent, Effect::Read])),
            12 | 13 => Act::Update,
            14 => Act::Remember,
            15 => Act::Passing,
            16 => Act::Emit,
            17 => Act::Undo,
            18 | 19 => Act::Added,
            20 => Act::Ask,
            21 => Act::Receive,
            22 => Act::Yield,
            23 => Act::Unpolled,
            24 => Act::Now,
            25 => Act::Publish,
            26 => Act::Hear,
            27..30 => Act::Delegate(self.one_of(&agents)),
            30 => Act::Share(10),
            31 | 32 => Act::Spawn(
                self.one_of(&agents),
                self.one_of(&[
                    ParentPolicy::Stop,
                    ParentPolicy::Continue,
                    ParentPolicy::Adopt,
                ]),
            ),
            33..35 => Act::SpawnJoin(self.one_of(&agents)),
            35 => Act::TellSelf,
            36 => Act::Topic,
            37 => Act::Allowance,
            _ => Act::Save,
        }
    }
}

impl Drawing<'_> {
    fn numbered(&mut self, act: Act) -> Leaf {
        self.next += 1;
        Leaf {
            number: self.next - 1,
            act,
        }
    }

    fn leaf(&mut self, has_children: bool) -> Leaf {
        self.numbered(self.draw.act(has_children))
    }

    fn some(&mut self, depth: u32, has_children: bool) -> Vec<Node> {
        let many = 2 + self.draw.below(2);
        (0..many)
            .map(|_| self.node(depth - 1, has_children))
            .collect()
    }

    fn node(&mut self, depth: u32, has_children: bool) -> Node {
        if depth == 0 || self.next >= LARGEST {
            return Node::Leaf(self.leaf(has_children));
        }
        match self.draw.below(13) {
            0 | 1 => Node::Leaf(self.leaf(has_children)),
            2..5 => Node::Seq(self.some(depth, has_children)),
            5 => Node::Join(self.some(depth, has_children)),
            6 => Node::Unordered(self.some(depth, has_children)),
            7 => Node::Branches(self.some(depth, has_children)),
            8 => Node::Race(self.some(depth, has_children)),
            9 => {
                let millis = self.draw.below(150);
                Node::Within(millis, Box::new(self.node(depth - 1, has_children)))
            }
            10 => Node::Slots(self.some(depth, has_children)),
            11 => {
                // A batch or a model call that is left alone in a hook keeps the policies to itself, which no
                // function may do.
                let act = match self.draw.act(has_children) {
                    Act::Batch | Act::Think | Act::Talk => Act::Tool("charge"),
                    act => act,
                };
                let held = self.numbered(act);
                Node::Held(held, Box::new(self.node(depth - 1, has_children)))
            }
            _ => Node::Dropped(Box::new(self.node(depth - 1, has_children))),
        }
    }
}
