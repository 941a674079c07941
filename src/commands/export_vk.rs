//! `forebay export-vk`.

use forebay::format::{FileSource, Kind, arkworks, bellman, fbkey::Fbkey, json, zkey::Zkey};
use forebay::key::VerifyingKey;
use forebay::{Error, Result};

use super::output::{Output, expect_distinct};
use crate::cli::ExportVk;
use crate::terminal::Terminal;

/// Writes the verification_key.json of a key.
pub fn run(options: &ExportVk, terminal: &Terminal) -> Result<()> {
    expect_distinct(&[&options.key], &[&options.verification_key])?;
    let source = FileSource::open(&options.key)?;
    let with_insecurity = |vk: VerifyingKey| {
        let insecurity = vk.insecurity();
        (vk, insecurity)
    };
    let read = || match Kind::of(&source)? {
        Kind::Zkey => {
            let header = Zkey::open(&source)?.header;
            let insecurity = header.insecurity();
            Ok((header.vk, insecurity))
        }
        Kind::Fbkey => {
            let header = Fbkey::map(&source)?.header;
            let insecurity = header.insecurity();
            Ok((header.vk, insecurity))
        }
        Kind::Params => Ok(with_insecurity(bellman::Params::open(&source)?.vk.vk)),
        Kind::BellmanVk => Ok(with_insecurity(bellman::read_vk(&source)?.vk)),
        Kind::ArkworksPk => Ok(with_insecurity(arkworks::Pk::open(&source)?.vk)),
        Kind::ArkworksVk => Ok(with_insecurity(arkworks::read_vk(&source)?)),
        other => {
            let expected = "a .zkey, .params, .fbkey or .vk, or arkworks' proving or verifying key";
            Err(Error::invalid("the file", other, expected))
        }
    };
    let (vk, insecurity) = read().map_err(|error: Error| error.in_file(&options.key))?;
    if let Some(why) = insecurity {
        terminal.warn(format!(
            "{}: INSECURE key, anyone can forge its proofs: {why}",
            options.key.display()
        ));
    }
    let output = Output::with_contents(&options.verification_key, &json::write_verifying_key(&vk))?;
    Output::finish([output])
}
