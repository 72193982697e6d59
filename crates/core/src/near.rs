//! Suggestions for mistyped names.

/// The longest text that is compared. A longer one is not a typing error, and comparing it would take long.
const LONGEST: usize = 64;

/// Those of `known` that `given` may be a mistyped form of: the nearest first, at most three.
///
/// ```
/// let near = outlast_core::nearest("TREM", ["TERM", "KILL", "HUP"]);
/// assert_eq!(near, ["TERM"]);
/// ```
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let (given, length) = lowered(given);
    if length == 0 || length > LONGEST {
        return Vec::new();
    }
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|name| {
            let (text, letters) = lowered(name);
            let slips = strsim::osa_distance(&given, &text);
            // A third of the letters may be wrong; in a short text, one.
            let allowed = (length.max(letters) / 3).max(1);
            (letters <= LONGEST && slips <= allowed && slips < letters).then_some((slips, name))
        })
        .collect();
    near.sort();
    near.dedup();
    // If one name is near, names that are much farther away do not help.
    let best = near.first().map_or(0, |(slips, _)| *slips);
    near.retain(|(slips, _)| *slips <= best + 1);
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

/// A text in lower case, cut just above the longest that is compared, and its letters.
fn lowered(text: &str) -> (String, usize) {
    let text: String = text.chars().flat_map(char::to_lowercase).take(LONGEST + 1).collect();
    let letters = text.chars().count();
    (text, letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_comes_first_and_what_is_far_not_at_all() {
        assert_eq!(nearest("TREM", ["TERM"]), ["TERM"], "two letters that are swapped are one mistake");
        assert_eq!(nearest("retention.day", ["retention.days", "retention.bytes", "watch.burst"]), ["retention.days"]);
        assert_eq!(nearest("usr", ["USR1", "USR2", "URG", "TERM"]), ["USR1", "USR2"]);
        assert!(nearest("frontend", ["backend", "db"]).is_empty());
        assert!(nearest("", ["a"]).is_empty());
        assert!(nearest("x", ["y"]).is_empty(), "one letter is no likeness");
        assert!(nearest(&"a".repeat(10_000), ["a"]).is_empty());
    }
}
