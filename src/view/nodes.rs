//! The surface's nodes in order: a persistent list that is cheap to append to, cut and clone.

use std::sync::Arc;

use imbl::{OrdMap, Vector};

use crate::log::Seq;

/// One node of the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// The seq of the node that first stood there; rises along the list.
    pub(super) place: Seq,
    pub(super) seq: Seq,
    /// It gives a message.
    pub(super) yields_message: bool,
}

/// A run of nodes.
#[derive(Clone, Debug, Default)]
struct Block {
    nodes: Vec<Node>,
    messages: usize,
}

impl Block {
    fn of(nodes: Vec<Node>) -> Self {
        let messages = nodes.iter().filter(|node| node.yields_message).count();
        Self { nodes, messages }
    }

    fn push(&mut self, node: Node) {
        self.messages += usize::from(node.yields_message);
        self.nodes.push(node);
    }

    fn get(&self, place: Seq) -> Option<Node> {
        let at = self.nodes.binary_search_by(|node| node.place.cmp(&place)).ok()?;
        self.nodes.get(at).copied()
    }

    /// Nodes before the place.
    fn before(&self, place: Seq) -> usize {
        self.nodes.partition_point(|node| node.place < place)
    }
}

/// Nodes by place, in blocks of at most [`BLOCK`]. A clone shares all but the last block; a change
/// copies the few that it touches, whatever the length.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    /// None is empty. By a place at or before the first node's, and after those of the block before.
    blocks: OrdMap<Seq, Arc<Block>>,
    /// Messages of the blocks whose keys lie in each [`GROUP`] of seqs, so that a message is found by its index.
    groups: Vector<usize>,
    /// The nodes after those, to which appends go.
    last: Block,
    len: usize,
    messages: usize,
}

const BLOCK: usize = 32;

/// Seqs of one group, as a power of two: blocks to walk within one against groups to walk past.
const GROUP: u32 = 12;

fn group_of(key: Seq) -> usize {
    usize::try_from(key.get() >> GROUP).unwrap_or(usize::MAX)
}

impl Nodes {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Nodes that give a message.
    pub(super) fn messages(&self) -> usize {
        self.messages
    }

    pub(super) fn get(&self, place: Seq) -> Option<Node> {
        if let Some(node) = self.last.get(place) {
            return Some(node);
        }
        self.blocks.get_prev(&place).and_then(|(_, block)| block.get(place))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Node> + '_ {
        let sealed = self.blocks.values().flat_map(|block| block.nodes.iter());
        sealed.chain(&self.last.nodes).copied()
    }

    /// The nodes between two places that nodes have, both included.
    pub(super) fn range(&self, from: Seq, to: Seq) -> impl Iterator<Item = Node> + '_ {
        let first = self.blocks.get_prev(&from).map_or(from, |(key, _)| *key);
        let sealed = self.blocks.range(first..=to).flat_map(|(_, block)| block.nodes.iter());
        let inside = sealed.chain(&self.last.nodes).copied();
        inside.skip_while(move |node| node.place < from).take_while(move |node| node.place <= to)
    }

    /// The nodes that give a message, from the one of that index on.
    pub(super) fn speaking(&self, index: usize) -> impl Iterator<Item = Node> + '_ {
        let (start, skip) = self.block_of_message(index);
        let sealed = start.into_iter().flat_map(|start| self.blocks.range(start..));
        let nodes = sealed.flat_map(|(_, block)| block.nodes.iter()).chain(&self.last.nodes);
        nodes.copied().filter(|node| node.yields_message).skip(skip)
    }

    /// The sealed block of a message, none for the last block, and the messages before it there.
    fn block_of_message(&self, index: usize) -> (Option<Seq>, usize) {
        let sealed = self.messages - self.last.messages;
        if index >= sealed {
            return (None, index - sealed);
        }
        let mut before = index;
        // Whether it lies beyond so many messages; they are passed then.
        let mut beyond = |messages: usize| {
            let beyond = before >= messages;
            before -= if beyond { messages } else { 0 };
            beyond
        };
        let group = self.groups.iter().take_while(|messages| beyond(**messages)).count();
        let start = Seq::new((group as u64) << GROUP).unwrap_or(Seq::ZERO);
        let found = self.blocks.range(start..).find(|(_, block)| !beyond(block.messages));
        (found.map(|(key, _)| *key), before)
    }

    /// Keeps count of the messages behind a key.
    fn count(&mut self, key: Seq, change: impl FnOnce(usize) -> usize) {
        let group = group_of(key);
        while self.groups.len() <= group {
            self.groups.push_back(0);
        }
        if let Some(messages) = self.groups.get_mut(group) {
            *messages = change(*messages);
        }
    }

    fn insert(&mut self, key: Seq, block: Block) {
        self.count(key, |messages| messages + block.messages);
        self.blocks.insert(key, Arc::new(block));
    }

    fn remove(&mut self, key: Seq) -> Option<Arc<Block>> {
        let block = self.blocks.remove(&key)?;
        self.count(key, |messages| messages - block.messages);
        Some(block)
    }

    /// Adds a node whose place is after all others.
    #[inline]
    pub(super) fn push(&mut self, node: Node) {
        if self.last.nodes.len() >= BLOCK {
            self.seal();
        }
        self.len += 1;
        self.messages += usize::from(node.yields_message);
        self.last.push(node);
    }

    /// Puts the last block among the others, with the one before it if both fit into one.
    fn seal(&mut self) {
        let Some(first) = self.last.nodes.first() else { return };
        if let Some((key, before)) = self.blocks.get_prev_mut(&first.place)
            && before.nodes.len() + self.last.nodes.len() <= BLOCK
        {
            let (key, more) = (*key, self.last.messages);
            let before = Arc::make_mut(before);
            self.last.nodes.drain(..).for_each(|node| before.push(node));
            self.last.messages = 0;
            return self.count(key, |messages| messages + more);
        }
        let first = first.place;
        let sealed = std::mem::replace(&mut self.last, Block::of(Vec::with_capacity(BLOCK)));
        self.insert(first, sealed);
    }

    /// Puts `node`, which stands at `from`, in place of the nodes from `from` to `to`, both included.
    ///
    /// Each node is taken out once in its life, so over a session this costs what the appends did.
    pub(super) fn replace(&mut self, from: Seq, to: Seq, node: Node) {
        self.seal();
        let first = self.blocks.get_prev(&from).map_or(from, |(key, _)| *key);
        let touched: Vec<Seq> = self.blocks.range(first..=to).map(|(key, _)| *key).collect();
        let mut kept: Vec<Node> = Vec::new();
        let (mut last_key, mut tail) = (first, Vec::new());
        for key in touched {
            let Some(block) = self.remove(key) else { continue };
            self.len -= block.nodes.len();
            self.messages -= block.messages;
            if key == first {
                kept.extend(block.nodes.iter().take(block.before(from)));
                kept.push(node);
            }
            last_key = key;
            tail = block.nodes.iter().copied().filter(|node| node.place > to).collect();
        }
        if last_key == first {
            kept.append(&mut tail); // it held all of them: it has become no longer
        }
        for (key, nodes) in [(first, kept), (last_key, tail)] {
            if !nodes.is_empty() {
                let block = Block::of(nodes);
                self.len += block.nodes.len();
                self.messages += block.messages;
                self.insert(key, block);
            }
        }
    }
}
