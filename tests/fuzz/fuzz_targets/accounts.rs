//! Any texts as passwd(5) and group(5). The checks are in `../src/accounts.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(accounts, |(_, ids): &(_, groundstate_units::spec::Ids)| {
    ids.groups.as_ref().is_some_and(|groups| !groups.is_empty())
});
