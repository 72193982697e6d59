//! `outlast chat` where standard input or output is a pipe: each line is a message, and replies are plain text.

use super::super::terminal::{self, Keyboard, Keys, Leaving};
use super::show::outcome_words;
use super::{ChatName, Context, Failure, failed, send};
use outlast_client::{Chat, Setup, TurnOutcome, message_id};

/// The longest line that is read. A longer one is refused as a message anyway.
const MAX_LINE_BYTES: usize = outlast_client::MAX_WORDS_BYTES + 1;

/// Sends each line and prints its reply. Exits with 1 if one was not completed.
pub(super) async fn perform(ctx: &Context, chat: &Chat, name: &ChatName, setup: &Setup) -> Result<i32, Failure> {
    let Keys { mut typed, held: _held, .. } = terminal::keys(Keyboard::Lines, Leaving::never())?;
    let (mut bytes, mut is_over, mut code) = (Vec::new(), false, 0);
    loop {
        while let Some(line) = next_line(&mut bytes, is_over) {
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            if !line.is_empty() {
                code = code.max(say(ctx, chat, name, setup, &line).await?);
            }
        }
        if is_over {
            return Ok(code);
        }
        match typed.recv().await {
            Some(more) => bytes.extend(more),
            None => is_over = true,
        }
    }
}

async fn say(ctx: &Context, chat: &Chat, name: &ChatName, setup: &Setup, words: &str) -> Result<i32, Failure> {
    send::check(words)?;
    let accepted = chat.send(&name.key, &message_id()?, words, setup).await.map_err(|e| failed(name, e))?;
    accepted.note.iter().for_each(|note| ctx.out.remark(note));
    // Without a limit, `wait` returns when the turn has finished or waits for a person.
    let Some(turn) = chat.wait(&name.key, accepted.turn, None).await? else {
        let why = send::who_is_waited_for(chat, name, accepted.turn).await;
        send::remark_held(ctx, name, why.as_deref().unwrap_or("`outlast chat show` says more"));
        return Ok(1);
    };
    let is_completed = turn.outcome == Some(TurnOutcome::Completed);
    if ctx.out.json {
        ctx.out.object(&turn)?;
    } else {
        ctx.out.text(&send::for_reader(turn.reply.as_deref().unwrap_or_default()))?;
        if let Some(outcome) = turn.outcome.as_ref().filter(|_| !is_completed) {
            ctx.out.remark(&format!("outlast: not answered ({})", outcome_words(outcome, turn.why.as_deref())));
        }
    }
    Ok(i32::from(!is_completed))
}

/// The next whole line; at the end of the input, the rest.
fn next_line(bytes: &mut Vec<u8>, is_over: bool) -> Option<Vec<u8>> {
    let end = bytes.iter().position(|b| *b == b'\n');
    match end {
        Some(end) => Some(bytes.drain(..=end).collect()),
        None if bytes.is_empty() => None,
        None if is_over || bytes.len() > MAX_LINE_BYTES => Some(std::mem::take(bytes)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_as_they_come() {
        let mut bytes = b"one\ntw".to_vec();
        assert_eq!(next_line(&mut bytes, false).unwrap(), b"one\n");
        assert_eq!(next_line(&mut bytes, false), None);
        bytes.extend(b"o");
        assert_eq!(next_line(&mut bytes, true).unwrap(), b"two");
        assert_eq!(next_line(&mut bytes, true), None);
    }
}
