//! The server-side assignors of brokers: which member of a consumer group gets which partition (KIP-848).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

/// A partition of a topic.
pub(crate) type TopicPartition = (Uuid, i32);
/// The partitions of each member.
pub(crate) type Assignment = BTreeMap<StrBytes, BTreeSet<TopicPartition>>;
/// The topics that each member wants.
pub(crate) type Wanted = BTreeMap<StrBytes, BTreeSet<Uuid>>;

/// An assignor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assignor {
    /// Assigns partitions as evenly as possible, and moves few of them.
    Uniform,
    /// Assigns each member a range of each topic's partitions.
    Range,
}

impl Assignor {
    /// The assignor with a name; None if the name is unknown.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "uniform" => Some(Self::Uniform),
            "range" => Some(Self::Range),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// Assigns all partitions of the topics that members want. `wanted`: the topics of each member. `before`: their
    /// previous partitions.
    pub(crate) fn assign(
        self,
        topics: &BTreeMap<Uuid, Vec<i32>>,
        wanted: &Wanted,
        before: &Assignment,
    ) -> Assignment {
        match self {
            Self::Uniform => uniform(topics, wanted, before),
            Self::Range => range(topics, wanted),
        }
    }
}

/// The members that want each topic. This map is needed because a check of each member for each topic would take
/// minutes for some thousands of both.
fn by_topic(wanted: &Wanted) -> BTreeMap<Uuid, Vec<&StrBytes>> {
    let mut found: BTreeMap<Uuid, Vec<&StrBytes>> = BTreeMap::new();
    for (member, topics) in wanted {
        for topic in topics {
            found.entry(*topic).or_default().push(member);
        }
    }
    found
}

fn uniform(topics: &BTreeMap<Uuid, Vec<i32>>, wanted: &Wanted, before: &Assignment) -> Assignment {
    let mut assigned: Assignment = wanted
        .keys()
        .map(|member| (member.clone(), BTreeSet::new()))
        .collect();
    let members_of = by_topic(wanted);
    let all: Vec<TopicPartition> = topics
        .iter()
        .filter(|(topic, _)| members_of.contains_key(*topic))
        .flat_map(|(topic, partitions)| partitions.iter().map(|number| (*topic, *number)))
        .collect();
    let most = all.len().div_ceil(wanted.len().max(1));
    // The number of members that may have the larger share.
    let mut larger = match all.len() % wanted.len().max(1) {
        0 => wanted.len(),
        rest => rest,
    };
    let exists: BTreeSet<TopicPartition> = all.iter().copied().collect();
    let mut taken = BTreeSet::new();
    for (member, own) in &mut assigned {
        let topics = wanted.get(member);
        for one in before.get(member).into_iter().flatten() {
            let is_wanted = topics.is_some_and(|topics| topics.contains(&one.0));
            let has_room = own.len() + 1 < most || (own.len() + 1 == most && larger > 0);
            if is_wanted && has_room && exists.contains(one) && taken.insert(*one) {
                own.insert(*one);
                if own.len() == most {
                    larger -= 1;
                }
            }
        }
    }
    for (topic, partitions) in topics {
        let left = partitions.iter().copied();
        let mut left = left
            .filter(|number| !taken.contains(&(*topic, *number)))
            .peekable();
        if left.peek().is_none() {
            continue;
        }
        // The members with the fewest partitions first.
        let members = members_of.get(topic).into_iter().flatten();
        let mut members: BinaryHeap<Reverse<(usize, &StrBytes)>> = members
            .map(|member| Reverse((assigned.get(*member).map_or(0, BTreeSet::len), *member)))
            .collect();
        for number in left {
            if let Some(mut least) = members.peek_mut()
                && let Some(own) = assigned.get_mut(least.0.1)
            {
                own.insert((*topic, number));
                least.0.0 += 1;
            }
        }
    }
    assigned
}

fn range(topics: &BTreeMap<Uuid, Vec<i32>>, wanted: &Wanted) -> Assignment {
    let mut assigned: Assignment = wanted
        .keys()
        .map(|member| (member.clone(), BTreeSet::new()))
        .collect();
    let members_of = by_topic(wanted);
    for (topic, partitions) in topics {
        let members = members_of.get(topic).map_or(&[][..], Vec::as_slice);
        let mut rest = partitions.as_slice();
        for (place, member) in members.iter().enumerate() {
            let count = rest.len().div_ceil(members.len() - place);
            let (own, behind) = rest.split_at(count.min(rest.len()));
            rest = behind;
            if let Some(all) = assigned.get_mut(*member) {
                all.extend(own.iter().map(|number| (*topic, *number)));
            }
        }
    }
    assigned
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    const TOPICS: [Uuid; 2] = [Uuid::from_u128(1), Uuid::from_u128(2)];

    fn topics(first: i32, second: i32) -> BTreeMap<Uuid, Vec<i32>> {
        let counts = [first, second];
        TOPICS
            .iter()
            .zip(counts)
            .map(|(topic, count)| (*topic, (0..count).collect()))
            .collect()
    }

    fn members(names: &[&str]) -> Wanted {
        names
            .iter()
            .map(|name| ((*name).to_owned().into(), TOPICS.into()))
            .collect()
    }

    fn counts(assigned: &Assignment) -> Vec<usize> {
        assigned.values().map(BTreeSet::len).collect()
    }

    /// Checks that each partition has one member.
    fn is_whole(assigned: &Assignment, count: usize) -> bool {
        let all: BTreeSet<_> = assigned.values().flatten().collect();
        all.len() == count && counts(assigned).iter().sum::<usize>() == count
    }

    #[test]
    fn partitions_are_even_and_stay_where_they_were() {
        let topics = topics(5, 2);
        let three =
            Assignor::Uniform.assign(&topics, &members(&["a", "b", "c"]), &Assignment::new());
        assert!(is_whole(&three, 7));
        assert_eq!(counts(&three), [3, 2, 2]);
        let two = Assignor::Uniform.assign(&topics, &members(&["a", "b"]), &three);
        assert!(is_whole(&two, 7));
        assert!(
            two.iter()
                .all(|(member, own)| own.is_superset(&three[member]))
        );
        let again = Assignor::Uniform.assign(&topics, &members(&["a", "b", "c"]), &two);
        assert!(is_whole(&again, 7));
        let kept: usize = two
            .iter()
            .map(|(member, own)| own.intersection(&again[member]).count())
            .sum();
        assert_eq!((kept, counts(&again)), (5, vec![3, 2, 2]));
    }

    #[test]
    fn a_member_gets_only_topics_that_it_wants() {
        let mut wanted = members(&["a", "b"]);
        wanted.insert("c".into(), [TOPICS[1]].into());
        for assignor in [Assignor::Uniform, Assignor::Range] {
            let assigned = assignor.assign(&topics(4, 3), &wanted, &Assignment::new());
            assert!(is_whole(&assigned, 7));
            assert!(
                assigned[&b"c"[..]]
                    .iter()
                    .all(|(topic, _)| *topic == TOPICS[1])
            );
        }
    }

    #[test]
    fn a_range_of_each_topic_goes_to_each_member() {
        let assigned =
            Assignor::Range.assign(&topics(5, 1), &members(&["a", "b"]), &Assignment::new());
        assert_eq!(counts(&assigned), [4, 2]);
        let first: Vec<i32> = assigned[&b"a"[..]]
            .iter()
            .map(|(_, number)| *number)
            .collect();
        assert_eq!(first, [0, 1, 2, 0]);
    }

    #[test]
    fn without_members_nothing_is_assigned() {
        for assignor in [Assignor::Uniform, Assignor::Range] {
            let assigned = assignor.assign(&topics(5, 1), &BTreeMap::new(), &Assignment::new());
            assert!(assigned.is_empty());
        }
    }
}
