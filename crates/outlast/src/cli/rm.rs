//! `outlast rm`

use super::named::{self, Each, Named};
use super::{Context, Failure};
use clap::Args;
use outlast_client::{ClientError, code};

/// Remove a finished process and its output
///
/// If one of several could not be removed, the exit code is 1. With --json the answer for several is {"processes": [...]}, each as for one process, or an
/// error with its `id`.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// The process: its name, its id, or at least four digits of its id; may be several
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

impl Rm {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let client = ctx.client().await?;
        let all = named::find_each(ctx, &client, &self.ids, named::Purpose::Act).await?;
        let tell = |of: &Named| ctx.out.tip(&format!("{of} was removed"));
        if let ([one], 1) = (&all[..], self.ids.len()) {
            let removed = client.remove(&one.id).await.map_err(|e| one.failed(ctx, self.refused(ctx, one, e)))?;
            tell(one);
            if ctx.out.json {
                ctx.out.object(&named::with_ids(&removed))?;
            }
            return Ok(0);
        }
        let mut each = Each::new();
        for one in &all {
            match client.remove(&one.id).await {
                Ok(removed) => {
                    tell(one);
                    each.done(&removed, 0);
                }
                Err(e) => each.failed(ctx, one, self.refused(ctx, one, e)),
            }
        }
        each.finish(ctx)
    }

    /// The refusal, for a user with the command that stops the process.
    fn refused(&self, ctx: &Context, one: &Named, error: ClientError) -> Failure {
        let failure = Failure::from(error);
        if ctx.out.json || failure.code() != code::STILL_RUNNING {
            return failure;
        }
        let kill = format!("`outlast kill {}`", one.typed(&self.ids));
        let hint = failure.hint().replace("`outlast kill`", &kill).replace(&format!("`outlast kill {}`", one.id), &kill);
        failure.hinting(hint)
    }
}
