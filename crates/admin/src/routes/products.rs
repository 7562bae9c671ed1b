//! Products: make, change, remove and list them.

use super::{Part, part};
use crate::answers::Removed;
use crate::answers::products::{self as answers, Products};
use crate::api::{Api, Shared};
use crate::describe::Body;
use crate::fault::Fault;
use crate::orders::{self, ProductBody};
use axum::Json;
use axum::extract::State;
use model::ports::control::{Answer, Command};
use model::ports::pushes::{PushAnswer, PushCommand};
use model::product::Product;
use std::sync::Arc;

type Told<T> = Result<Json<T>, Fault>;

/// `GET /v1/products`
pub(crate) async fn list(State(api): Api) -> Told<Products> {
    let mut products = products(&api).await?;
    products.sort_by(|a, b| a.key.cmp(&b.key));
    let told = products.iter().map(|product| answers::Product::new(product, None));
    Ok(Json(Products { products: told.collect() }))
}

/// `GET /v1/products/{product}`
pub(crate) async fn one(State(api): Api, path: Part) -> Told<answers::Product> {
    let key = orders::product(&part(path)?)?;
    let products = products(&api).await?;
    let found = products.iter().find(|product| product.key == key);
    found
        .map(|product| Json(answers::Product::new(product, None)))
        .ok_or_else(|| Fault::unknown_product(&key))
}

/// `PUT /v1/products/{product}`
pub(crate) async fn put(
    State(api): Api,
    path: Part,
    body: Body<ProductBody>,
) -> Told<answers::Product> {
    let key = orders::product(&part(path)?)?;
    let wish = body.read()?;
    let products = products(&api).await?;
    let present = products.iter().find(|product| product.key == key).map(|found| &**found);
    let (product, made) = wish.product(key.clone(), present, &*api.settings.random)?;
    let terms = |product: &Product| (product.heartbeat, product.inflight_max);
    let changed = present.is_some_and(|present| terms(present) != terms(&product));
    let told = answers::Product::new(&product, made.as_ref());
    done(&api, Command::Push(PushCommand::PutProduct(Box::new(product)))).await?;
    if changed {
        // Devices that are online hear of their new terms; the product is changed either way.
        done(&api, Command::Push(PushCommand::Configure { product: key })).await?;
    }
    Ok(Json(told))
}

/// `DELETE /v1/products/{product}`
pub(crate) async fn remove(State(api): Api, path: Part) -> Told<Removed> {
    let key = orders::product(&part(path)?)?;
    match done(&api, Command::Push(PushCommand::DropProduct(key.clone()))).await? {
        true => Ok(Json(Removed { removed: true })),
        false => Err(Fault::unknown_product(&key)),
    }
}

async fn products(api: &Shared) -> Result<Vec<Arc<Product>>, Fault> {
    match api.ask(Command::Push(PushCommand::Products)).await? {
        Answer::Push(PushAnswer::Products(products)) => Ok(products),
        _ => Err(Fault::internal()),
    }
}

async fn done(api: &Shared, command: Command) -> Result<bool, Fault> {
    match api.ask(command).await? {
        Answer::Push(PushAnswer::Done(done)) => Ok(done),
        _ => Err(Fault::internal()),
    }
}
