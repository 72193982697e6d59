//! Tokens that tell by their prefix whose they are.

use Body::{Alphanumeric, Base64, Dotted, Upper, Word};
use std::ops::Range;

/// The tokens of one prefix.
pub(crate) struct Family {
    /// How they begin, in this case.
    pub(crate) prefix: &'static str,
    /// What they are made of after that.
    pub(crate) body: Body,
    /// How much of it there is at least.
    pub(crate) shortest: usize,
    /// Whether there must be a digit in it, because words in source code begin like this too.
    pub(crate) digit: bool,
}

/// What the rest of a token is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Upper,
    Alphanumeric,
    /// Letters, digits, `_` and `-`.
    Word,
    /// A word with dots in it.
    Dotted,
    /// A word with `+`, `/` and `=` in it.
    Base64,
}

const fn family(prefix: &'static str, body: Body, shortest: usize) -> Family {
    Family { prefix, body, shortest, digit: false }
}

const fn with_digit(prefix: &'static str, body: Body, shortest: usize) -> Family {
    Family { prefix, body, shortest, digit: true }
}

#[rustfmt::skip]
pub(crate) const FAMILIES: &[Family] = &[
    // Models and what serves them.
    family("sk-", Word, 10), family("gsk_", Alphanumeric, 10), family("xai-", Word, 16),
    family("pplx-", Alphanumeric, 10), family("hf_", Alphanumeric, 10),
    family("api_org_", Alphanumeric, 20), family("r8_", Alphanumeric, 20),
    with_digit("fal_", Word, 16), with_digit("fw_", Alphanumeric, 16),
    family("csk-", Alphanumeric, 16), family("nvapi-", Word, 16), family("tgp_v1_", Word, 16),
    with_digit("sk_", Word, 16), family("pcsk_", Word, 16), with_digit("jina_", Alphanumeric, 20),
    family("lsv2_pt_", Word, 16), family("lsv2_sk_", Word, 16), with_digit("m0-", Alphanumeric, 20),
    // Search, scraping, browsers.
    family("tvly-", Word, 10), with_digit("exa_", Alphanumeric, 10),
    with_digit("fc-", Alphanumeric, 16), family("bb_live_", Word, 10),
    family("apify_api_", Alphanumeric, 16),
    // Code hosts, packages, builds.
    family("ghp_", Alphanumeric, 10), family("gho_", Alphanumeric, 10),
    family("ghu_", Alphanumeric, 10), family("ghs_", Alphanumeric, 10),
    family("ghr_", Alphanumeric, 10), family("github_pat_", Word, 10),
    family("glpat-", Dotted, 10), family("gldt-", Dotted, 10), family("glrt-", Dotted, 10),
    family("glrtr-", Dotted, 10), family("glcbt-", Dotted, 10), family("glptt-", Dotted, 10),
    family("glft-", Dotted, 10), family("glimt-", Dotted, 10), family("glagent-", Dotted, 10),
    family("glsoat-", Dotted, 10), family("gloas-", Dotted, 10), family("glffct-", Dotted, 10),
    family("GR1348941", Word, 16),
    family("ATBB", Alphanumeric, 24), family("ATATT3", Base64, 24), family("ATCTT3", Base64, 24),
    family("npm_", Alphanumeric, 10), family("pypi-", Word, 16),
    family("rubygems_", Alphanumeric, 20), family("CLOJARS_", Alphanumeric, 20),
    family("oy2", Alphanumeric, 43), family("AKCp", Alphanumeric, 60),
    family("dckr_pat_", Word, 16), family("dckr_oat_", Word, 16),
    family("bkua_", Alphanumeric, 20), family("CCIPAT_", Word, 20), family("sgp_", Word, 20),
    family("PMAK-", Word, 20), family("pul-", Alphanumeric, 40), family("pnu_", Alphanumeric, 30),
    // Clouds and hosting.
    family("AKIA", Upper, 16), family("ASIA", Upper, 16), family("ABIA", Upper, 16),
    family("ACCA", Upper, 16), family("AIza", Word, 30), family("ya29.", Dotted, 20),
    family("GOCSPX-", Word, 10), with_digit("LTAI", Alphanumeric, 16),
    family("dop_v1_", Alphanumeric, 10), family("doo_v1_", Alphanumeric, 10),
    family("dor_v1_", Alphanumeric, 10), family("nfp_", Alphanumeric, 20),
    with_digit("vcp_", Alphanumeric, 20), with_digit("vck_", Alphanumeric, 20),
    family("fm1_", Base64, 24), family("fm2_", Base64, 24), family("fo1_", Word, 24),
    with_digit("rnd_", Alphanumeric, 16), family("HRKU-", Word, 20),
    with_digit("dapi", Alphanumeric, 32), family("tskey-", Word, 16),
    // Databases and secret stores.
    family("sbp_", Alphanumeric, 20), family("sb_secret_", Word, 16),
    family("pscale_tkn_", Dotted, 16), family("pscale_pw_", Dotted, 16),
    family("pscale_oauth_", Dotted, 16), family("hvs.", Dotted, 20), family("hvb.", Dotted, 20),
    family("hvr.", Dotted, 20), family("dp.pt.", Dotted, 20), family("dp.st.", Dotted, 20),
    family("dp.ct.", Dotted, 20), family("dp.sa.", Dotted, 20), family("ops_eyJ", Base64, 24),
    family("AGE-SECRET-KEY-1", Alphanumeric, 20),
    // Money and shops.
    family("sk_live_", Word, 10), family("sk_test_", Word, 10), family("rk_live_", Word, 10),
    family("rk_test_", Word, 10), family("whsec_", Base64, 16), family("sq0atp-", Word, 16),
    family("sq0csp-", Word, 16), family("shpat_", Alphanumeric, 16),
    family("shpca_", Alphanumeric, 16), family("shppa_", Alphanumeric, 16),
    family("shpss_", Alphanumeric, 16), family("shippo_live_", Alphanumeric, 20),
    family("shippo_test_", Alphanumeric, 20), family("EZAK", Alphanumeric, 40),
    family("EZTK", Alphanumeric, 40),
    // Mail, chat, work.
    family("xoxb-", Word, 10), family("xoxa-", Word, 10), family("xoxp-", Word, 10),
    family("xoxr-", Word, 10), family("xoxs-", Word, 10), family("xoxe-", Word, 10),
    family("xoxc-", Word, 10), family("xoxd-", Word, 10), family("xapp-", Word, 10),
    family("SG.", Dotted, 16), with_digit("key-", Alphanumeric, 32), family("xkeysib-", Word, 20),
    family("syt_", Word, 20), family("lin_api_", Alphanumeric, 10),
    family("lin_oauth_", Alphanumeric, 10), family("ntn_", Alphanumeric, 20),
    family("secret_", Alphanumeric, 40), family("figd_", Word, 16), family("CFPAT-", Word, 20),
    family("pat-na1-", Word, 20), family("pat-eu1-", Word, 20), family("tfp_", Dotted, 30),
    family("sl.", Dotted, 60), family("rdme_", Alphanumeric, 40),
    // Watching over it all.
    family("sntrys_", Base64, 20), family("sntryu_", Alphanumeric, 20), family("glc_", Base64, 20),
    family("glsa_", Word, 20), family("NRAK-", Alphanumeric, 20), family("dt0c01.", Dotted, 24),
    family("dt0s01.", Dotted, 24), family("phx_", Alphanumeric, 20), family("gAAAA", Base64, 40),
];

impl Family {
    /// The token that begins at `start`, where the prefix may stand in another case.
    pub(crate) fn token_at(&self, text: &str, start: usize) -> Option<Range<usize>> {
        let bytes = text.as_bytes();
        if !text[start..].starts_with(self.prefix) {
            return None;
        }
        let rest = &bytes[start + self.prefix.len()..];
        let is_joined = start > 0 && matches!(bytes[start - 1], b'-' | b'_');
        let may_begin = begins_word(bytes, start) || (is_joined && looks_drawn(rest, self.body));
        if !may_begin {
            return None;
        }
        let own = rest.iter().take_while(|&&byte| self.body.has(byte));
        let (mut length, mut has_digit) = (0, false);
        for byte in own {
            length += 1;
            has_digit |= byte.is_ascii_digit();
        }
        if length < self.shortest || (self.digit && !has_digit) {
            return None;
        }
        // The whole word is masked, so that no token of another kind begins in what stays.
        let word = rest[length..].iter().take_while(|&&byte| self.body.has(byte) || is_word(byte));
        let end = start + self.prefix.len() + length + word.count();
        let token = text[start..end].trim_end_matches('.');
        Some(start..start + token.len())
    }
}

/// How far into a token that is joined to another word is looked, so that many beginnings in one word take linear time.
const JOINED_REACH: usize = 256;
/// How many letters and digits in a row such a token has at least.
const JOINED_RUN: usize = 16;

/// Whether what follows a prefix inside of a longer word was drawn at random: many letters and digits in a row, a digit among them, and letters that no
/// hexadecimal number has: beyond f, or of both cases. Words with hyphens and the sums in `cache-key-d41d8c…` are not like that.
fn looks_drawn(rest: &[u8], body: Body) -> bool {
    let own = rest.iter().take(JOINED_REACH).take_while(|&&byte| body.has(byte));
    let (mut length, mut digit, mut beyond, mut lower, mut upper) = (0, false, false, false, false);
    for byte in own {
        if byte.is_ascii_alphanumeric() {
            length += 1;
            digit |= byte.is_ascii_digit();
            beyond |= byte.is_ascii_alphabetic() && !byte.is_ascii_hexdigit();
            lower |= byte.is_ascii_lowercase();
            upper |= byte.is_ascii_uppercase();
        } else {
            (length, digit, beyond, lower, upper) = (0, false, false, false, false);
        }
        if length >= JOINED_RUN && digit && (beyond || (lower && upper)) {
            return true;
        }
    }
    false
}

impl Body {
    fn has(self, byte: u8) -> bool {
        match self {
            Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Alphanumeric => byte.is_ascii_alphanumeric(),
            Word => is_word(byte),
            Dotted => is_word(byte) || byte == b'.',
            Base64 => is_word(byte) || matches!(byte, b'+' | b'/' | b'='),
        }
    }
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Whether a word may begin at `at`. A `\n`, `\r` or `\t` spelled out, as in JSON, is no part of it.
pub(crate) fn begins_word(bytes: &[u8], at: usize) -> bool {
    match &bytes[..at] {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., before] => !is_word(*before),
        [] => true,
    }
}
