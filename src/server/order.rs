//! Which request may run: one at a time for a session, in order of arrival (PROTOCOL 3).
//!
//! A request names sessions. It waits while a job of another works on one of them, or an older request that waits
//! names one of them. The empty name stands for the list of all sessions. Some wait for more than what they name
//! ([`Reach`]): no younger one overtakes these.
//!
//! No step looks at more than the names that it concerns: each name has its own queue, and a request is looked at
//! again only when the queue of one of its names has moved.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Where a request stands: by order of arrival, and before 0 those that came back to the front.
pub(super) type Place = i64;

/// What a request waits for beside the sessions that it names. What comes behind one that waits for more than that,
/// waits too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Nothing.
    Named,
    /// A list, which shows what all before it have done: all sessions that are worked on.
    Sessions,
    /// `initialize`: all that is not answered, as the first answer fixes the dialect (PROTOCOL 2).
    Everything,
}

impl Reach {
    fn of(names: &[String]) -> Self {
        match names {
            [name] if name.is_empty() => Self::Sessions,
            [one, two] if one.is_empty() && two.is_empty() => Self::Everything,
            _ => Self::Named,
        }
    }

    fn is_wide(self) -> bool {
        self != Self::Named
    }
}

/// The names of a request that waits for everything before it.
pub(super) fn everything() -> Vec<String> {
    vec![String::new(); 2]
}

/// Requests that wait, and the sessions that are worked on.
#[derive(Debug)]
pub(super) struct Order<T> {
    waiting: BTreeMap<Place, (T, Vec<String>)>,
    /// Jobs under way.
    jobs: usize,
    /// How many of them work on a session; only those that some job works on.
    busy: HashMap<String, usize>,
    /// Those of them that are busy with appends that are in flight.
    in_flight: HashSet<String>,
    /// Who waits for a session; only those that somebody waits for.
    queues: HashMap<String, BTreeSet<Place>>,
    /// Those that wait for more than the sessions that they name.
    wide: BTreeSet<Place>,
    /// Those from there on were not looked at yet.
    fresh: Place,
    /// Those before it that may be free: what held them was looked at, and has moved since.
    moved: BTreeSet<Place>,
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        let (waiting, busy, queues) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        let in_flight = HashSet::new();
        Self {
            waiting,
            jobs: 0,
            busy,
            in_flight,
            queues,
            wide: BTreeSet::new(),
            fresh: 0,
            moved: BTreeSet::new(),
        }
    }
}

impl<T> Order<T> {
    /// Whether no request waits here.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many do.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A job begins to work on sessions.
    pub(super) fn begin(&mut self, names: &[String]) {
        self.jobs += 1;
        for name in names {
            *self.busy.entry(name.clone()).or_default() += 1;
        }
    }

    /// Such a job has ended.
    pub(super) fn end(&mut self, names: &[String]) {
        self.jobs = self.jobs.saturating_sub(1);
        for name in names {
            let Some(jobs) = self.busy.get_mut(name) else { continue };
            *jobs -= 1;
            if *jobs == 0 {
                self.busy.remove(name);
                self.has_moved(name);
            }
        }
    }

    /// Appends of a session are in flight from now on: it is worked on, and others of its appends may pass.
    pub(super) fn take_off(&mut self, name: &str) {
        if self.in_flight.insert(name.to_owned()) {
            self.begin(&[name.to_owned()]);
        }
    }

    /// None are any more.
    pub(super) fn land(&mut self, name: &str) {
        if self.in_flight.remove(name) {
            self.end(&[name.to_owned()]);
        }
    }

    /// Whether appends of a session are in flight.
    pub(super) fn is_in_flight(&self, name: &str) -> bool {
        self.in_flight.contains(name)
    }

    /// Whether an append that has just come may pass: nothing is to be waited for but appends that are in flight.
    pub(super) fn lets_append(&self, name: &str) -> bool {
        let works = usize::from(self.in_flight.contains(name));
        self.wide.is_empty()
            && !self.queues.contains_key(name)
            && self.busy.get(name).is_none_or(|busy| *busy == works)
    }

    /// Whoever is the first to wait for a session may be free.
    fn has_moved(&mut self, name: &str) {
        let first = self.queues.get(name).and_then(BTreeSet::first).copied();
        self.moved.extend(first.filter(|place| *place < self.fresh));
    }

    /// Whether nothing works on that session, and nothing waits that a request for it must wait for.
    pub(super) fn is_free(&self, name: &str) -> bool {
        !self.busy.contains_key(name) && !self.queues.contains_key(name) && self.wide.is_empty()
    }

    /// Whether a request that has just come must wait.
    pub(super) fn is_busy(&self, names: &[String]) -> bool {
        let reach = Reach::of(names);
        !self.wide.is_empty()
            || self.holds(reach)
            || (reach.is_wide() && !self.waiting.is_empty())
            || names.iter().any(|name| !self.is_free(name))
    }

    /// Whether work is under way for which a request of that reach waits, beside that for the sessions that it names.
    fn holds(&self, reach: Reach) -> bool {
        match reach {
            Reach::Named => false,
            Reach::Sessions => !self.busy.is_empty(),
            Reach::Everything => self.jobs > 0,
        }
    }

    /// Whether one that has waited must go on waiting: only for sessions that are worked on. Older ones that name them
    /// there are none, and the younger ones wait for it.
    pub(super) fn is_held(&self, names: &[String]) -> bool {
        self.holds(Reach::of(names)) || names.iter().any(|name| self.busy.contains_key(name))
    }

    /// Puts a request behind all others.
    pub(super) fn push_back(&mut self, request: T, names: Vec<String>) -> Place {
        let place = self.waiting.last_key_value().map_or(self.fresh, |(last, _)| last + 1).max(self.fresh);
        self.push(place, request, names)
    }

    /// Puts one that has waited in front of all others again.
    pub(super) fn push_front(&mut self, request: T, names: Vec<String>) -> Place {
        let place =
            self.waiting.first_key_value().map_or(self.fresh, |(first, _)| *first).min(self.fresh) - 1;
        self.moved.insert(place);
        self.push(place, request, names)
    }

    fn push(&mut self, place: Place, request: T, names: Vec<String>) -> Place {
        for name in &names {
            self.queues.entry(name.clone()).or_default().insert(place);
        }
        if Reach::of(&names).is_wide() {
            self.wide.insert(place);
        }
        self.waiting.insert(place, (request, names));
        place
    }

    /// Takes the request of that place out.
    pub(super) fn remove(&mut self, place: Place) -> Option<T> {
        let (request, names) = self.waiting.remove(&place)?;
        self.wide.remove(&place);
        self.moved.remove(&place);
        for name in &names {
            let Some(queue) = self.queues.get_mut(name) else { continue };
            queue.remove(&place);
            if queue.is_empty() {
                self.queues.remove(name);
            }
            self.has_moved(name);
        }
        Some(request)
    }

    /// The first one that may be free, and whether it is; none while one is before it that nothing overtakes.
    fn candidate(&self) -> Option<(Place, bool)> {
        let fresh = self.waiting.range(self.fresh..).next().map(|(place, _)| *place);
        let place = self.moved.first().copied().into_iter().chain(fresh).min()?;
        let (first, wide) = (*self.waiting.first_key_value()?.0, self.wide.first().copied());
        let (place, names) = match wide.filter(|wide| *wide <= place) {
            None => (place, &self.waiting.get(&place)?.1),
            Some(wide) if wide > first => return None,
            Some(wide) => {
                let names = &self.waiting.get(&wide)?.1;
                return (!self.is_held(names)).then_some((wide, true));
            }
        };
        let is_next = |name| self.queues.get(name).and_then(BTreeSet::first) == Some(&place);
        Some((place, names.iter().all(|name| !self.busy.contains_key(name) && is_next(name))))
    }

    /// Whether [`Self::next_free`] has not yet looked at all that may be free.
    pub(super) fn may_be_free(&self) -> bool {
        self.candidate().is_some()
    }

    /// Takes out the first request that waits for nothing any more. What was looked at in vain is not looked at again
    /// before what it waits for has moved.
    pub(super) fn next_free(&mut self) -> Option<(Place, T)> {
        loop {
            let (place, is_free) = self.candidate()?;
            self.moved.remove(&place);
            self.fresh = self.fresh.max(place + 1);
            if is_free {
                return Some((place, self.remove(place)?));
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    /// The rules as they are told: whoever comes is compared with all before it.
    #[derive(Default)]
    struct Told {
        waiting: Vec<(usize, Vec<String>)>,
        jobs: Vec<Vec<String>>,
        in_flight: Vec<String>,
    }

    impl Told {
        fn busy(&self) -> HashSet<&String> {
            self.jobs.iter().flatten().chain(&self.in_flight).collect()
        }

        fn is_busy(&self, names: &[String]) -> bool {
            let wide = self.waiting.iter().any(|(_, names)| Reach::of(names).is_wide());
            let named = |name| self.waiting.iter().any(|(_, names)| names.contains(name));
            let behind = Reach::of(names).is_wide() && !self.waiting.is_empty();
            wide || behind || self.is_held(names) || names.iter().any(named)
        }

        fn is_held(&self, names: &[String]) -> bool {
            let busy = self.busy();
            let holds = match Reach::of(names) {
                Reach::Named => false,
                Reach::Sessions => !busy.is_empty(),
                Reach::Everything => !(self.jobs.is_empty() && self.in_flight.is_empty()),
            };
            holds || names.iter().any(|name| busy.contains(name))
        }

        /// An append waits for all that waits for its session or for more than one, and for all work but appends.
        fn lets_append(&self, name: &String) -> bool {
            let stops = |names: &Vec<String>| names.contains(name) || Reach::of(names).is_wide();
            !self.waiting.iter().any(|(_, names)| stops(names))
                && !self.jobs.iter().any(|names| names.contains(name))
        }

        fn next_free(&mut self) -> Option<usize> {
            let mut held = self.busy();
            let mut free = None;
            for (at, (_, names)) in self.waiting.iter().enumerate() {
                if Reach::of(names).is_wide() && (at > 0 || self.is_held(names)) {
                    break;
                }
                if !names.iter().any(|name| held.contains(name)) {
                    free = Some(at);
                    break;
                }
                held.extend(names);
            }
            free.map(|at| self.waiting.remove(at).0)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Come(Vec<String>),
        Begin(Vec<String>),
        End(Index),
        Cancel(Index),
        TakeOff(String),
        Land(String),
        /// Takes a free one out, and lets it begin a job, come back to the front where that holds it, or neither.
        Run(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let names = || {
            prop_oneof![
                6 => prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d"]), 0..3),
                1 => prop::sample::select(vec![vec![""], vec!["", ""]]),
                1 => prop::sample::select(vec![vec!["a", ""], vec!["b", ""]]),
            ]
            .prop_map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>())
        };
        let one = || prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(str::to_owned);
        prop_oneof![
            4 => names().prop_map(Step::Come),
            1 => names().prop_map(Step::Begin),
            2 => any::<Index>().prop_map(Step::End),
            1 => any::<Index>().prop_map(Step::Cancel),
            1 => one().prop_map(Step::TakeOff),
            2 => one().prop_map(Step::Land),
            4 => any::<u8>().prop_map(Step::Run),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn requests_run_by_the_rules_as_they_are_told(steps in prop::collection::vec(step(), 1..60)) {
            let (mut order, mut told) = (Order::default(), Told::default());
            let (mut places, mut names_of) = (HashMap::new(), HashMap::new());
            for (id, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Come(names) => {
                        prop_assert_eq!(order.is_busy(&names), told.is_busy(&names));
                        places.insert(id, order.push_back(id, names.clone()));
                        names_of.insert(id, names.clone());
                        told.waiting.push((id, names));
                    }
                    Step::Begin(names) => {
                        order.begin(&names);
                        told.jobs.push(names);
                    }
                    Step::End(which) if !told.jobs.is_empty() => {
                        let names = told.jobs.remove(which.index(told.jobs.len()));
                        order.end(&names);
                    }
                    Step::TakeOff(name) => {
                        order.take_off(&name);
                        if !told.in_flight.contains(&name) {
                            told.in_flight.push(name);
                        }
                    }
                    Step::Land(name) => {
                        order.land(&name);
                        told.in_flight.retain(|one| *one != name);
                    }
                    Step::Cancel(which) if !told.waiting.is_empty() => {
                        let (id, _) = told.waiting.remove(which.index(told.waiting.len()));
                        prop_assert_eq!(order.remove(places[&id]), Some(id));
                    }
                    Step::End(_) | Step::Cancel(_) => {}
                    Step::Run(then) => {
                        let found = order.next_free();
                        prop_assert_eq!(found.map(|(_, id)| id), told.next_free());
                        let Some((_, id)) = found else {
                            prop_assert!(!order.may_be_free(), "nothing is looked at twice in vain");
                            continue;
                        };
                        let names: &Vec<String> = &names_of[&id];
                        if then % 3 > 0 {
                            order.begin(names);
                            told.jobs.push(names.clone());
                        }
                        prop_assert_eq!(order.is_held(names), told.is_held(names));
                        if then % 3 == 2 && told.is_held(names) {
                            places.insert(id, order.push_front(id, names.clone()));
                            told.waiting.insert(0, (id, names.clone()));
                        }
                    }
                }
                for name in ["a", "b", "c", "d"].map(str::to_owned) {
                    prop_assert_eq!(order.is_free(&name), !told.is_busy(std::slice::from_ref(&name)));
                    prop_assert_eq!(order.lets_append(&name), told.lets_append(&name));
                    prop_assert_eq!(order.is_in_flight(&name), told.in_flight.contains(&name));
                }
                prop_assert_eq!(order.is_empty(), told.waiting.is_empty());
            }
        }
    }
}
