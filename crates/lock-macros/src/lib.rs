//! The `#[derive(LockKey)]` macro, for types whose values name locks. Use it through `distlock` or
//! `lock-core`, with the feature `macros`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod attribute;
mod derive;
mod template;

#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use syn::{DeriveInput, Path, parse_macro_input, parse_quote};

/// Derives `LockKey` from templates: `#[lock_key("stock:{sku}")]`.
///
/// | template | meaning |
/// | --- | --- |
/// | `{sku}`, `{0}` | a field, formatted with `Display` and percent-encoded |
/// | `{item.sku}` | a field of a field |
/// | `{{`, `}}` | a literal brace |
///
/// Several templates, as in `#[lock_key("account:{from}", "account:{to}")]`, name several locks,
/// which are acquired together. The attribute can also be repeated.
///
/// The generated code refers to the crate that exports the macro, `lock_core` or `distlock`. If your program depends on
/// that crate under another name, add `#[lock_key(crate = other_name)]`.
///
/// ```
/// use lock_core::{LockKey, LockName};
///
/// #[derive(LockKey)]
/// #[lock_key("stock:{sku}")]
/// struct NewOrder {
///     sku: u64,
/// }
///
/// assert_eq!(NewOrder { sku: 7 }.lock_names().unwrap().single(), Some(&LockName::from_static("stock:7")));
/// ```
///
/// A template that names an unknown field does not compile:
/// ```compile_fail
/// # use lock_core::LockKey;
/// #[derive(LockKey)]
/// #[lock_key("stock:{skuu}")] // `NewOrder` has no field `skuu`: use `sku`
/// struct NewOrder {
///     sku: u64,
/// }
/// ```
/// A template that cannot produce a valid name, or whose fields are not separated, does not compile
/// either:
/// ```compile_fail
/// # use lock_core::LockKey;
/// #[derive(LockKey)]
/// #[lock_key("distlock:{sku}")]
/// struct NewOrder {
///     sku: u64,
/// }
/// ```
/// ```compile_fail
/// # use lock_core::LockKey;
/// #[derive(LockKey)]
/// #[lock_key("stock:{house}{sku}")]
/// struct NewOrder {
///     house: u64,
///     sku: u64,
/// }
/// ```
#[proc_macro_derive(LockKey, attributes(lock_key))]
pub fn lock_key(input: TokenStream) -> TokenStream {
    expand(parse_macro_input!(input), &parse_quote!(::lock_core))
}

/// The derive for programs that use the `distlock` facade, which re-exports it as `LockKey`.
#[doc(hidden)]
#[proc_macro_derive(DistlockLockKey, attributes(lock_key))]
pub fn distlock_lock_key(input: TokenStream) -> TokenStream {
    expand(parse_macro_input!(input), &parse_quote!(::distlock))
}

fn expand(input: DeriveInput, from: &Path) -> TokenStream {
    derive::lock_key(&input, from).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
