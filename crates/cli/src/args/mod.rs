//! The command line. Each verb's help states what it does and what it needs, with an example to copy.

mod adapt;
mod cache;
mod campaign;
mod clone;
mod command;
mod compare;
mod completions;
mod deploy;
mod destroy;
mod exec;
mod explain;
mod export;
mod fabric;
mod forward;
mod graph;
mod host;
mod image;
mod import;
mod inspect;
mod migrate;
mod noise;
mod overlay;
mod pairs;
mod paper;
mod part;
mod parts;
mod pause;
mod place;
mod report;
mod run;
mod schema;
mod serve;
mod snapshot;
mod streams;
mod study;
mod traffic;
mod validate;

pub use adapt::{Adapt, Change as AdaptChange};
pub use cache::{Cache, CacheAction, CacheClean};
pub use campaign::{Campaign, Status as CampaignStatus, Submit as CampaignSubmit};
pub use clone::Clone;
pub use command::{Cli, Verb};
pub use compare::Compare;
pub use completions::Completions;
pub use deploy::Deploy;
pub use destroy::Destroy;
pub use exec::{Exec, Shell};
pub use explain::Explain;
pub use export::{Export, Tool};
pub use fabric::{
    Carrier as FabricCarrier, Fabric, Join, Move as FabricMove, Remove as FabricRemove,
    Show as FabricShow, Store,
};
pub use forward::{Forward, ForwardBy};
pub use graph::{Drawing, Graph};
pub use host::{
    Device, Host, HostAction, HostBoot, HostBootDevice, HostConsole, HostPower, PowerChange,
};
pub use image::Image;
pub use import::{By as MatchBy, Import, ImportCaptures, ImportTopology};
pub use inspect::Inspect;
pub use migrate::Migrate;
pub use noise::Noise;
pub use overlay::Overlay;
pub use paper::Paper;
pub use part::{Part, PartMeasure, PartPlan};
pub use parts::Merge;
pub use pause::Pause;
pub use place::Place;
pub use report::Report;
pub use run::Run;
pub use schema::Document;
pub use serve::Serve;
pub use snapshot::{Restore, Snapshot};
pub use streams::{Streams, Switch};
pub use study::StudyOptions;
pub use traffic::Traffic;
pub use validate::Validate;
