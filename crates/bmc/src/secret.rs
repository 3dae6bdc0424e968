//! Reading a controller's password.

use latlab_model::spec::Secret;

use crate::error::Error;

pub(crate) fn read(secret: &Secret) -> Result<String, Error> {
    match secret {
        Secret::Variable(name) => std::env::var(name).map_err(|_| Error::NoVariable(name.clone())),
        Secret::File(path) => {
            let text = std::fs::read_to_string(path).map_err(|source| Error::PasswordFile {
                path: path.clone(),
                source,
            })?;
            Ok(text.lines().next().unwrap_or_default().to_owned())
        }
    }
}
