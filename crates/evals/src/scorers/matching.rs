//! The assignment of found calls to expected ones.

/// The largest number of pairs in which each expected item has a found one that fits it, and no found one is used
/// twice: a maximum matching of a bipartite graph, by augmenting paths (Kuhn 1955). `fits(expected, found)`; the result
/// has the found item of each expected one.
pub(super) fn assign(
    expected: usize,
    found: usize,
    fits: impl Fn(usize, usize) -> bool,
) -> Vec<Option<usize>> {
    let edges: Vec<Vec<usize>> = (0..expected)
        .map(|e| (0..found).filter(|f| fits(e, *f)).collect())
        .collect();
    let mut owners: Vec<Option<usize>> = vec![None; found];
    for item in 0..expected {
        augment(item, &edges, &mut owners, &mut vec![false; found]);
    }
    let mut assigned = vec![None; expected];
    for (found, owner) in owners.iter().enumerate() {
        if let Some(owner) = owner {
            assigned[*owner] = Some(found);
        }
    }
    assigned
}

fn augment(
    item: usize,
    edges: &[Vec<usize>],
    owners: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    for &found in &edges[item] {
        if std::mem::replace(&mut seen[found], true) {
            continue;
        }
        let is_free = match owners[found] {
            None => true,
            Some(owner) => augment(owner, edges, owners, seen),
        };
        if is_free {
            owners[found] = Some(item);
            return true;
        }
    }
    false
}
