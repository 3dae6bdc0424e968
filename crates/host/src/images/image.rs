//! Images by their place, and what makes them usable.

use std::io;
use std::path::{Path, PathBuf};

use latlab_model::spec::Recipe;
use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::config::ImageConfig;
use super::error::Error;
use super::host::{self, Search};
use super::made::{Described, Made, Wish};
use super::view::RootView;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Image {
    Host,
    Empty,
    Directory(PathBuf),
    Archive(PathBuf),
    /// The file of a description of packages.
    Recipe(PathBuf),
    /// A description of packages, whose files are relative to a directory.
    Inline(Box<Recipe>, PathBuf),
}

impl Image {
    /// Understands the `image` of a lab. A relative path is taken from `base`, the directory of
    /// the lab's file.
    pub fn find(text: &str, base: &Path) -> Result<Self, Error> {
        if text == "host" {
            return Ok(Self::Host);
        }
        if text == "empty" {
            return Ok(Self::Empty);
        }
        let path = base.join(text);
        match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => Ok(Self::Directory(path)),
            Ok(found) if found.is_file() && is_recipe(&path) => Ok(Self::Recipe(path)),
            Ok(found) if found.is_file() => Ok(Self::Archive(path)),
            Ok(_) => Err(Error::NotFound(path)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::NotFound(path)),
            Err(e) => Err(Error::io("look at image", &path)(e)),
        }
    }
}

fn is_recipe(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml"))
}

/// Makes `image` usable, with all hidden that is not for nodes.
pub fn prepare(image: &Image, cache: &Cache) -> Result<RootView, Error> {
    let search = (*image == Image::Host).then(Search::begin);
    let view = open(image, cache, &|_| ())?;
    Ok(search.map_or(view.clone(), |search| view.also_hiding(&search.end())))
}

/// Makes `image` usable; what a [`Search`] finds in the host's is still to be hidden. Work is needed only for an
/// archive or a recipe that is not in the cache yet.
pub fn open(image: &Image, cache: &Cache, progress: &dyn Fn(&str)) -> Result<RootView, Error> {
    match image {
        Image::Host => host::view(),
        Image::Empty => Ok(RootView::plain(cache.empty()?, ImageConfig::default())),
        Image::Directory(dir) => {
            let dir = std::fs::canonicalize(dir).map_err(Error::io("use image", dir))?;
            Ok(RootView::plain(dir, ImageConfig::default()))
        }
        Image::Archive(file) => {
            let (dir, config) = cache.unpack(file)?;
            Ok(RootView::plain(dir, config))
        }
        Image::Recipe(file) => {
            let told = |step: &str| progress(&format!("image {}: {step}", file.display()));
            Ok(view_of(cache.make(file, Wish::default(), &told)?))
        }
        Image::Inline(recipe, base) => {
            let title = recipe.title();
            let told = |step: &str| progress(&format!("image {title}: {step}"));
            let described = Described {
                recipe,
                base,
                place: &format!("of {title}"),
            };
            let made = cache.make_described(described, Wish::default(), &told)?;
            Ok(view_of(made))
        }
    }
}

fn view_of(made: Made) -> RootView {
    RootView {
        kernel: made.kernel,
        ..RootView::plain(made.root, ImageConfig::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_host_a_directory_or_a_file() {
        let base = std::env::temp_dir();
        assert_eq!(Image::find("host", &base).unwrap(), Image::Host);
        assert_eq!(
            Image::find(".", &base).unwrap(),
            Image::Directory(base.join("."))
        );
        let file = base.join(format!("latlab-image-{}", std::process::id()));
        std::fs::write(&file, b"").unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        assert_eq!(
            Image::find(name, &base).unwrap(),
            Image::Archive(file.clone())
        );
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(Image::find(name, &base), Err(Error::NotFound(_))));
        assert!(matches!(
            Image::find("/dev/null", &base),
            Err(Error::NotFound(_))
        ));
    }
}
