//! The place in a chat to which notices are sent.

use clap::Args;
use outlast_client::Route;

/// What a channel needs to answer in the right place.
#[derive(Debug, Args)]
pub(crate) struct RouteArgs {
    /// Chat address passed along with each notice, for gateways; K is platform, chat, user, name, thread or message
    #[arg(long = "route", value_name = "K=V", value_parser = part)]
    parts: Vec<(RouteField, String)>,
}

#[derive(Debug, Clone, Copy)]
enum RouteField {
    Platform,
    Chat,
    User,
    Name,
    Thread,
    Message,
}

fn part(text: &str) -> Result<(RouteField, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not of the form K=V"))?;
    let part = match name {
        "platform" => RouteField::Platform,
        "chat" => RouteField::Chat,
        "user" => RouteField::User,
        "name" => RouteField::Name,
        "thread" => RouteField::Thread,
        "message" => RouteField::Message,
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
                RouteField::Platform => &mut route.platform,
                RouteField::Chat => &mut route.chat_id,
                RouteField::User => &mut route.user_id,
                RouteField::Name => &mut route.user_name,
                RouteField::Thread => &mut route.thread_id,
                RouteField::Message => &mut route.message_id,
            };
            *place = Some(value);
        }
        route
    }
}
