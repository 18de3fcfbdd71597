//! The arguments of `#[lock_key(…)]`.

use syn::{
    Attribute, DeriveInput, Error, LitStr, Path, Result, Token,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

/// The arguments of all attributes on a type.
pub(crate) struct Arguments {
    /// The templates, at least one.
    pub(crate) templates: Vec<LitStr>,
    /// The crate that exports `LockKey`, if specified.
    pub(crate) from: Option<Path>,
}

enum Argument {
    Template(LitStr),
    Crate(Path),
}

impl Arguments {
    pub(crate) fn of(input: &DeriveInput) -> Result<Self> {
        let mut all = Self { templates: Vec::new(), from: None };
        let is_ours = |attribute: &&Attribute| attribute.path().is_ident("lock_key");
        for attribute in input.attrs.iter().filter(is_ours) {
            for argument in attribute.parse_args_with(Punctuated::<Argument, Token![,]>::parse_terminated)? {
                match argument {
                    Argument::Template(template) => all.templates.push(template),
                    Argument::Crate(path) => all.from = Some(path),
                }
            }
        }
        if all.templates.is_empty() {
            let say =
                format!("`{}` has no key: add one, such as `#[lock_key(\"stock:{{sku}}\")]`", input.ident);
            return Err(Error::new(input.ident.span(), say));
        }
        Ok(all)
    }
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(LitStr) {
            return input.parse().map(Self::Template);
        }
        if !input.peek(Token![crate]) {
            return Err(input.error("not a key: write a template in quotes, or `crate = name`"));
        }
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        input.call(Path::parse_mod_style).map(Self::Crate)
    }
}
