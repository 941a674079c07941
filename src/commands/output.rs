//! Output files that are whole or not there: written beside their place, then renamed.

use std::io::Write;
use std::path::{Path, PathBuf};

use forebay::{Error, Result};
use tempfile::NamedTempFile;

/// A file that will stand at `path` once it is whole.
pub struct Output {
    path: PathBuf,
    file: NamedTempFile,
}

impl Output {
    /// A new temporary file in `path`'s folder.
    pub fn create(path: &Path) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".forebay-");
        #[cfg(unix)]
        {
            // As any other program's output: readable as the user's umask says.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(folder_of(path)).map_err(Error::io(path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// A temporary file with these contents.
    pub fn with_contents(path: &Path, contents: &[u8]) -> Result<Self> {
        let mut output = Self::create(path)?;
        output.write_all(contents).map_err(Error::io(path))?;
        Ok(output)
    }

    /// Moves the files to their places. All are on the disk before the first is moved, so that what can
    /// fail (a full disk) fails before anything is seen.
    pub fn finish(outputs: impl IntoIterator<Item = Self>) -> Result<()> {
        let outputs: Vec<Self> = outputs.into_iter().collect();
        for output in &outputs {
            output.file.as_file().sync_all().map_err(Error::io(&output.path))?;
        }
        for Self { path, file } in outputs {
            file.persist(&path).map_err(|error| Error::io(&path)(error.error))?;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.as_file_mut().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_file_mut().flush()
    }
}

/// The folder that `path` is in.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// That no output is also an input or another output, under whatever name.
pub fn expect_distinct(inputs: &[&Path], outputs: &[&Path]) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let all: Vec<PathBuf> = inputs.iter().chain(outputs).map(|path| real(path)).collect();
    for (i, output) in all.iter().enumerate().skip(inputs.len()) {
        if all[..i].contains(output) {
            return Err(Error::Usage(format!(
                "{} is named twice, once as an output",
                output.display()
            )));
        }
    }
    Ok(())
}
