//! Wherever a stream is cut, its lines are the same; what is known of one that is too long is what it says; `initialize` is changed in one word; and of a
//! message that shows terminals of ours nothing else is changed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_acp::{Line, OversizedReader, ShownTerminals, Splitter, with_terminals};
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
        oversized(line, size);
        change(line);
        show(line);
        show(&update(line));
    }
    assert_eq!(again, bytes);
});

/// A message of an agent's with this as the content of a tool call.
fn update(content: &[u8]) -> Vec<u8> {
    let head = &b"{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"content\":["[..];
    let ours = &b"{\"type\":\"terminal\",\"terminalId\":\"proc_0123456789ab\"},"[..];
    [head, ours, content, b"]}}}"].concat()
}

/// Every other byte is where it was, and each terminal is what was put in its place.
fn show(line: &[u8]) {
    let Some(shown) = ShownTerminals::find(line) else { return };
    let by = vec![Value::from(7); shown.terminals.len()];
    let mut rest = line.to_vec();
    for (place, id) in shown.terminals.iter().rev() {
        assert!(String::from_utf8_lossy(&line[place.clone()]).contains("terminalId") && id.starts_with("proc_"));
        rest.splice(place.clone(), *b"7");
    }
    let changed = shown.replaced(line, &by);
    assert_eq!(changed, rest);
    // Deeper than a value may be.
    assert!(serde_json::from_slice::<Value>(&changed).is_ok() || serde_json::from_slice::<Value>(line).is_err());
}

/// What was found in an object is in it.
fn oversized(line: &[u8], size: usize) {
    let mut reader = OversizedReader::default();
    line.chunks(size).for_each(|piece| reader.push(piece));
    let found = reader.finish();
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
