//! Wherever a stream is cut, its lines are the same; what is known of one that is too long is what it says; and `initialize` is changed in one word.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_acp::{Line, Skim, Splitter, with_terminals};
use serde_json::Value;

fn lines(most: usize, size: usize, bytes: &[u8]) -> Vec<Line> {
    let mut splitter = Splitter::new(most);
    let mut all = Vec::new();
    for piece in bytes.chunks(size) {
        splitter.push(piece);
        while let Some(line) = splitter.next_line() {
            all.push(line);
        }
    }
    all.extend(splitter.finish());
    all
}

fuzz_target!(|input: (usize, usize, &[u8])| {
    let (size, most, bytes) = input;
    let (size, most) = (size % 61 + 1, most % 301 + 1);
    let cut = lines(most, size, bytes);
    assert_eq!(cut, lines(most, bytes.len().max(1), bytes));
    let whole = lines(usize::MAX, size, bytes);
    assert_eq!(cut.len(), whole.len());
    let mut again = Vec::new();
    for (line, cut) in whole.iter().zip(&cut) {
        let Line::Whole(line) = line else { panic!("nothing is too long") };
        again.extend_from_slice(line);
        match cut {
            Line::Whole(same) => assert!(same == line && line.len() <= most),
            Line::Long(known) => assert!(known.bytes == line.len() as u64 && line.len() > most),
        }
        skim(line, size);
        change(line);
    }
    assert_eq!(again, bytes);
});

/// What was found in an object is in it.
fn skim(line: &[u8], size: usize) {
    let mut skim = Skim::default();
    line.chunks(size).for_each(|piece| skim.push(piece));
    let found = skim.finish();
    let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(line) else { return };
    // Twice the same name, or one that is escaped: then anything may be found.
    let text = String::from_utf8_lossy(line);
    if text.matches("\"id\"").count() > 1 || text.matches("\"method\"").count() > 1 || text.contains('\\') || line.len() > 1_000 {
        return;
    }
    let id = object.get("id").filter(|id| id.is_number() || id.is_string());
    assert_eq!(found.id.map(|id| serde_json::from_str::<Value>(id.get()).unwrap()).as_ref(), id);
    assert_eq!(found.method.as_deref(), object.get("method").and_then(Value::as_str));
}

/// A changed message says that there are terminals, and the rest of it is as it was.
fn change(line: &[u8]) {
    let Some(changed) = with_terminals(line) else { return };
    // Deeper than a value may be.
    let Ok(mut before) = serde_json::from_slice::<Value>(line) else { return };
    let mut after: Value = serde_json::from_slice(&changed).unwrap();
    assert_eq!(changed.iter().filter(|b| **b == b'\n').count(), 1 + line.trim_ascii_end().iter().filter(|b| **b == b'\n').count());
    let text = String::from_utf8_lossy(line);
    if ["params", "clientCapabilities", "terminal"].iter().any(|name| text.matches(name).count() > 1) || text.contains('\\') {
        return;
    }
    assert_eq!(after["params"]["clientCapabilities"]["terminal"], true);
    for message in [&mut before, &mut after] {
        let params = message["params"].as_object_mut().unwrap();
        let capabilities = params.remove("clientCapabilities").unwrap_or_default();
        let mut rest = capabilities.as_object().cloned().unwrap_or_default();
        rest.remove("terminal");
        params.insert("rest".into(), Value::Object(rest));
    }
    assert_eq!(before, after);
}
