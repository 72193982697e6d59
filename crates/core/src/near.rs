//! What somebody may have meant.

/// How long a text may be to be compared with others: what is longer is no slip of the finger, and comparing it would take long.
const LONGEST: usize = 64;

/// Of `known`, those that `given` may be a slip for, the nearest first, at most three.
///
/// ```
/// let near = outlast_core::nearest("TREM", ["TERM", "KILL", "HUP"]);
/// assert_eq!(near, ["TERM"]);
/// ```
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let given: Vec<char> = given.chars().flat_map(char::to_lowercase).take(LONGEST + 1).collect();
    if given.is_empty() || given.len() > LONGEST {
        return Vec::new();
    }
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|name| {
            let chars: Vec<char> = name.chars().flat_map(char::to_lowercase).take(LONGEST + 1).collect();
            let slips = slips(&given, &chars);
            // A third of the letters may be wrong; of a short text one.
            let may = (given.len().max(chars.len()) / 3).max(1);
            (chars.len() <= LONGEST && slips <= may && slips < chars.len()).then_some((slips, name))
        })
        .collect();
    near.sort();
    near.dedup();
    // Beside one that is near, what is much farther is no help.
    let best = near.first().map_or(0, |(slips, _)| *slips);
    near.retain(|(slips, _)| *slips <= best + 1);
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

/// How many letters have to be put, taken, replaced or swapped with their neighbour to get from one to the other.
fn slips(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let same = a[i - 1] == b[j - 1];
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + usize::from(!same));
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        let count = |a: &str, b: &str| slips(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        for (a, b, want) in
            [("", "", 0), ("abc", "abc", 0), ("abc", "", 3), ("abc", "acb", 1), ("abc", "abxc", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(count(a, b), want, "{a} {b}");
            assert_eq!(count(b, a), want, "{b} {a}");
        }
    }

    #[test]
    fn the_nearest_comes_first_and_what_is_far_not_at_all() {
        assert_eq!(nearest("retention.day", ["retention.days", "retention.bytes", "watch.burst"]), ["retention.days"]);
        assert_eq!(nearest("usr", ["USR1", "USR2", "URG", "TERM"]), ["USR1", "USR2"]);
        assert!(nearest("frontend", ["backend", "db"]).is_empty());
        assert!(nearest("", ["a"]).is_empty());
        assert!(nearest("x", ["y"]).is_empty(), "one letter is no likeness");
        assert!(nearest(&"a".repeat(10_000), ["a"]).is_empty());
    }
}
