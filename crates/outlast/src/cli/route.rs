//! Where in a chat an owner is.

use clap::Args;
use outlast_client::Route;

/// What a channel needs to answer in the right place.
#[derive(Debug, Args)]
pub(crate) struct RouteArgs {
    /// Where in a chat to answer, sent along with each notice; K is platform, chat, user, name, thread or message
    #[arg(long = "route", value_name = "K=V", value_parser = part)]
    parts: Vec<(Part, String)>,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Platform,
    Chat,
    User,
    Name,
    Thread,
    Message,
}

fn part(text: &str) -> Result<(Part, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not of the form K=V"))?;
    let part = match name {
        "platform" => Part::Platform,
        "chat" => Part::Chat,
        "user" => Part::User,
        "name" => Part::Name,
        "thread" => Part::Thread,
        "message" => Part::Message,
        _ => return Err(format!("{name:?} is not one of platform, chat, user, name, thread and message")),
    };
    Ok((part, value.to_owned()))
}

impl From<RouteArgs> for Route {
    /// The last of those that are given twice counts.
    fn from(args: RouteArgs) -> Self {
        let mut route = Self::default();
        for (part, value) in args.parts {
            let place = match part {
                Part::Platform => &mut route.platform,
                Part::Chat => &mut route.chat_id,
                Part::User => &mut route.user_id,
                Part::Name => &mut route.user_name,
                Part::Thread => &mut route.thread_id,
                Part::Message => &mut route.message_id,
            };
            *place = Some(value);
        }
        route
    }
}
