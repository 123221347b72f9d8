//! Any keys and values in the cluster's etcd. The checks are in `../src/stored_value.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(stored_value, |found: &groundstate_fuzz::stored_value::Found| {
    let mut globals = found.picture.globals.values();
    globals.any(|told| told.record.first.as_ref().is_some_and(|first| !first.is_empty()))
        && !found.picture.drains.is_empty()
});
