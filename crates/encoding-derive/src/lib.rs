//! Derives `base::encoding::Encoding` for structs and enums, and their samples for tests.
//!
//! A struct is encoded as its fields, in the order of the source. An enum is encoded as a tag of
//! one byte and the fields of the variant. The source states the tag of each variant, in one
//! attribute of the enum or as the discriminants of all variants:
//! ```text
//! #[encoding(Request = 0, Reply = 1)]      #[encoding(since = 2)]
//! enum ChatWord { Request { .. }, .. }     field: u32, // of a level from 2 on, default before
//! ```
//! A variant without a tag, and a tag that is used twice, are errors of the compiler.

use proc_macro::TokenStream;
use proc_macro2::{Span, TokenStream as Tokens};
use quote::{format_ident, quote};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DataEnum, DeriveInput, Expr, ExprLit, Fields, Ident, Lit};
use syn::{Error, MetaNameValue, Result, Token, Type, Variant, parse_macro_input};

/// Derives `Encoding`.
#[proc_macro_derive(Encoding, attributes(encoding))]
pub fn encoding(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    derived(&input).unwrap_or_else(|fault| fault.to_compile_error()).into()
}

fn derived(input: &DeriveInput) -> Result<Tokens> {
    let name = &input.ident;
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new(parameter.span(), "an encoded type has no parameters"));
    }
    let (encode, decode, kinds, sample) = match &input.data {
        Data::Struct(data) if data.fields.is_empty() => {
            return Err(Error::new(name.span(), "an encoded struct has a field"));
        }
        Data::Struct(data) => {
            let parts = Parts::of(&data.fields)?;
            let (pattern, encode, decode) = (parts.pattern(), parts.encode(), parts.decode());
            let (kinds, sample) = (parts.kinds(&quote!(nesting)), parts.sample());
            let encode = quote!(let Self #pattern = self; #encode);
            (encode, quote!(Ok(Self #decode)), kinds, quote!(Self #sample))
        }
        Data::Enum(data) => of_enum(name, data, &input.attrs)?,
        Data::Union(_) => return Err(Error::new(name.span(), "a union has no encoding")),
    };
    Ok(quote! {
        impl ::base::encoding::Encoding for #name {
            fn encode(&self, to: &mut ::base::encoding::Encoder) {
                #encode
            }

            fn decode(
                from: &mut ::base::encoding::Decoder<'_>,
            ) -> ::core::result::Result<Self, ::base::encoding::DecodeError> {
                #decode
            }
        }

        impl ::base::encoding::sample::Sample for #name {
            fn kinds(nesting: u8) -> usize {
                #kinds
            }

            fn sample(kind: usize, from: &mut ::base::encoding::sample::SampleSource) -> Self {
                #sample
            }
        }
    })
}

/// Code that encodes and decodes an enum, counts its kinds and makes a sample.
fn of_enum(
    name: &Ident,
    data: &DataEnum,
    attrs: &[Attribute],
) -> Result<(Tokens, Tokens, Tokens, Tokens)> {
    let tags = tags(data, &stated(attrs)?)?;
    let (mut encode, mut decode) = (Vec::new(), Vec::new());
    let (mut kinds, mut sample) = (Vec::new(), Vec::new());
    for (variant, tag) in data.variants.iter().zip(tags) {
        let parts = Parts::of(&variant.fields)?;
        let (word, pattern) = (&variant.ident, parts.pattern());
        let (put, take) = (parts.encode(), parts.decode());
        encode.push(quote!(Self::#word #pattern => { to.byte(#tag); #put }));
        decode.push(quote!(#tag => Ok(Self::#word #take)));
        kinds.push(parts.kinds(&quote!(nesting)));
        let (count, one) = (parts.kinds(&quote!(from.nesting())), parts.sample());
        sample.push(quote! {
            let count = #count;
            let Some(next) = kind.checked_sub(count) else { return Self::#word #one };
            let kind = next;
        });
    }
    let whose = name.to_string();
    let unknown = quote!(tag => Err(::base::encoding::DecodeError::Tag(#whose, tag)));
    let encode = quote!(match self { #(#encode)* });
    let decode = quote!(match from.byte()? { #(#decode,)* #unknown });
    let sample = quote!(#(#sample)* unreachable!("no kind {} of {}", kind, #whose));
    Ok((encode, decode, quote!(#(#kinds)+*), sample))
}

/// The tag of each variant.
fn tags(data: &DataEnum, stated: &[(Ident, u8)]) -> Result<Vec<u8>> {
    let is_variant = |name: &Ident| data.variants.iter().any(|variant| variant.ident == *name);
    if let Some((name, _)) = stated.iter().find(|(name, _)| !is_variant(name)) {
        return Err(Error::new(name.span(), "a tag for a variant that does not exist"));
    }
    let mut tags = Vec::new();
    for variant in &data.variants {
        let tag = tag(variant, stated)?;
        if tags.contains(&tag) {
            return Err(Error::new(variant.span(), format!("the tag {tag} is used twice")));
        }
        tags.push(tag);
    }
    Ok(tags)
}

fn tag(variant: &Variant, stated: &[(Ident, u8)]) -> Result<u8> {
    let name = &variant.ident;
    if let Some((_, tag)) = stated.iter().find(|(stated, _)| stated == name) {
        return Ok(*tag);
    }
    match &variant.discriminant {
        Some((_, value)) => number(value),
        None => {
            let what = format!("no tag: add `{name} = N` to #[encoding(..)] of the enum");
            Err(Error::new(name.span(), what))
        }
    }
}

/// Names and numbers of `#[encoding(name = number, ..)]`.
fn stated(attrs: &[Attribute]) -> Result<Vec<(Ident, u8)>> {
    let mut all = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("encoding")) {
        let list = Punctuated::<MetaNameValue, Token![,]>::parse_terminated;
        for pair in attr.parse_args_with(list)? {
            all.push((pair.path.require_ident()?.clone(), number(&pair.value)?));
        }
    }
    Ok(all)
}

fn number(value: &Expr) -> Result<u8> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse(),
        other => Err(Error::new(other.span(), "a number from 0 to 255")),
    }
}

/// Fields of a struct or variant.
struct Parts {
    /// Names in the source; none: the fields are numbered.
    names: Option<Vec<Ident>>,
    /// Names of variables.
    vars: Vec<Ident>,
    types: Vec<Type>,
    /// The level that brought the field.
    since: Vec<Option<u8>>,
}

impl Parts {
    fn of(fields: &Fields) -> Result<Parts> {
        let names = match fields {
            Fields::Named(_) => Some(fields.iter().filter_map(|it| it.ident.clone()).collect()),
            Fields::Unnamed(_) | Fields::Unit => None,
        };
        let vars = (0..fields.len()).map(|at| format_ident!("field_{}", at)).collect();
        let mut since = Vec::new();
        for field in fields {
            let mut level = None;
            for (name, number) in stated(&field.attrs)? {
                if name != "since" {
                    return Err(Error::new(name.span(), "`since = LEVEL` is all that is known"));
                }
                level = Some(number);
            }
            if level.is_none() && since.last().is_some_and(Option::is_some) {
                let span = field.ident.as_ref().map_or_else(Span::call_site, Ident::span);
                return Err(Error::new(span, "a newer field comes last: state `since` here, too"));
            }
            since.push(level);
        }
        let types = fields.iter().map(|field| field.ty.clone()).collect();
        Ok(Parts { names, vars, types, since })
    }

    /// The fields, each bound to its variable.
    fn pattern(&self) -> Tokens {
        let vars = &self.vars;
        match &self.names {
            Some(names) => quote!({ #(#names: #vars),* }),
            None if vars.is_empty() => Tokens::new(),
            None => quote!((#(#vars),*)),
        }
    }

    fn encode(&self) -> Tokens {
        let all = self.vars.iter().zip(&self.since).map(|(var, since)| {
            let put = quote!(::base::encoding::Encoding::encode(#var, to););
            match since {
                Some(level) => quote!(if to.level() >= #level { #put }),
                None => put,
            }
        });
        quote!(#(#all)*)
    }

    fn decode(&self) -> Tokens {
        let all: Vec<Tokens> = self
            .since
            .iter()
            .map(|since| {
                let take = quote!(::base::encoding::Encoding::decode(from)?);
                match since {
                    Some(level) => {
                        quote!(if from.level() >= #level { #take } else { Default::default() })
                    }
                    None => take,
                }
            })
            .collect();
        self.built(&all)
    }

    /// The number of kinds.
    fn kinds(&self, nesting: &Tokens) -> Tokens {
        let types = &self.types;
        let kinds = quote!(::base::encoding::sample::kinds_of);
        quote!(#kinds(&[#(<#types as ::base::encoding::sample::Sample>::kinds(#nesting)),*]))
    }

    fn sample(&self) -> Tokens {
        let all: Vec<Tokens> = self.types.iter().map(|_| quote!(from.part(kind))).collect();
        self.built(&all)
    }

    /// The fields with these values.
    fn built(&self, values: &[Tokens]) -> Tokens {
        match &self.names {
            Some(names) => quote!({ #(#names: #values),* }),
            None if values.is_empty() => Tokens::new(),
            None => quote!((#(#values),*)),
        }
    }
}
