//! The implementation of `LockKey` for a struct.

use crate::{
    attribute::Arguments,
    template::{self, Piece},
};
use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, LitStr, Member, Path, Result, Type, parse_quote};

/// Returns the implementation. The generated code refers to `from`, unless the attribute specifies
/// another crate.
pub(crate) fn lock_key(input: &DeriveInput, from: &Path) -> Result<TokenStream> {
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(_) | Data::Union(_) => {
            let say = "`LockKey` can only be derived for structs: implement it manually for this type";
            return Err(Error::new(input.ident.span(), say));
        }
    };
    let Arguments { templates, from: chosen } = Arguments::of(input)?;
    let from = chosen.as_ref().unwrap_or(from);
    let subject = Subject { name: &input.ident, fields, from };

    let mut generics = input.generics.clone();
    let is_generic = generics.type_params().next().is_some();
    let mut names = Vec::new();
    for template in &templates {
        let (name, displayed) = subject.name_of(template)?;
        names.push(name);
        if is_generic {
            let bounds = displayed.into_iter().map(|field| parse_quote!(#field: ::core::fmt::Display));
            generics.make_where_clause().predicates.extend::<Vec<syn::WherePredicate>>(bounds.collect());
        }
    }
    let names = match &names[..] {
        [name] => quote!(::core::convert::From::from(#name)),
        names => quote!(::core::iter::FromIterator::from_iter([#(#names),*])),
    };
    let (name, (parameters, arguments, bounds)) = (&input.ident, generics.split_for_impl());
    Ok(quote! {
        #[automatically_derived]
        impl #parameters #from::LockKey for #name #arguments #bounds {
            fn lock_names(
                &self,
            ) -> ::core::result::Result<#from::names::LockNames, #from::NameError> {
                ::core::result::Result::Ok(#names)
            }
        }
    })
}

/// The struct, and the crate that exports `LockKey`.
struct Subject<'a> {
    name: &'a Ident,
    fields: &'a Fields,
    from: &'a Path,
}

impl Subject<'_> {
    /// Returns the expression for one name, and the types of the fields that it formats.
    fn name_of(&self, template: &LitStr) -> Result<(TokenStream, Vec<&Type>)> {
        let from = self.from;
        let pieces = template::pieces(template)?;
        let mut name = quote!(#from::__private::TemplateName::default());
        let (mut displayed, mut sample, mut checks) = (Vec::new(), String::new(), TokenStream::new());
        for (place, piece) in pieces.iter().enumerate() {
            match piece {
                Piece::Text(text) => {
                    sample.push_str(text);
                    name.extend(quote!(.text(#text)));
                    let is_between = place > 0 && place + 1 < pieces.len();
                    if is_between {
                        checks.extend(quote! { const _: () = ::core::assert!(
                            #from::__private::separates(#text),
                            "two fields of a lock key are not separated: put a character such as `:` between them",
                        );});
                    }
                }
                Piece::Field(field, inner) => {
                    let (member, ty) = self.field(field, template)?;
                    if inner.is_empty() {
                        displayed.push(ty);
                    }
                    // A placeholder for the check of the literal text.
                    sample.push('x');
                    let value = quote!(&self.#member #(.#inner)*);
                    name.extend(quote!(.field(#value)?));
                }
            }
        }
        checks.extend(quote! {
            const _: #from::LockName = #from::LockName::from_static(#sample);
        });
        // Resolves names as in the rest of the generated code, even if the template comes from
        // another macro.
        let span = Span::call_site().located_at(template.span());
        Ok((at(span, quote!({ #checks #name.finish()? })), displayed))
    }

    fn field(&self, field: &str, template: &LitStr) -> Result<(Member, &Type)> {
        let mut members = self.fields.members().zip(self.fields);
        match members.find(|(member, _)| plain(member) == field) {
            Some((member, found)) => Ok((member, &found.ty)),
            None => {
                let known: Vec<_> =
                    self.fields.members().map(|member| format!("`{}`", plain(&member))).collect();
                let remedy = match &known[..] {
                    [] => "the struct has no fields".to_owned(),
                    known => format!("use {}", known.join(" or ")),
                };
                let say = format!("`{}` has no field `{field}`: {remedy}", self.name);
                Err(Error::new(template.span(), say))
            }
        }
    }
}

/// Sets the span of all tokens, so that compiler errors point there.
fn at(span: Span, tokens: TokenStream) -> TokenStream {
    let moved = tokens.into_iter().map(|token| {
        let mut token = match token {
            TokenTree::Group(group) => Group::new(group.delimiter(), at(span, group.stream())).into(),
            token => token,
        };
        token.set_span(span);
        token
    });
    moved.collect()
}

/// Returns the name of a field as written in templates: `type` for `r#type`.
fn plain(member: &Member) -> String {
    match member {
        Member::Named(name) => name.to_string().trim_start_matches("r#").to_owned(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}
