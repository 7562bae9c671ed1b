//! Products: make, change, remove and list them.

use super::{Part, part};
use crate::answers;
use crate::api::{Api, Shared};
use crate::body::read;
use crate::fault::Fault;
use crate::orders::{self, ProductBody};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use model::ports::control::{Answer, Command};
use model::ports::pushes::{PushAnswer, PushCommand};
use model::product::Product;
use serde_json::{Value, json};
use std::sync::Arc;

type Told = Result<Json<Value>, Fault>;

/// `GET /v1/products`
pub(crate) async fn list(State(api): Api) -> Told {
    let mut products = products(&api).await?;
    products.sort_by(|a, b| a.key.cmp(&b.key));
    let told: Vec<_> = products.iter().map(|product| answers::product(product)).collect();
    Ok(Json(json!({ "products": told })))
}

/// `GET /v1/products/{product}`
pub(crate) async fn one(State(api): Api, path: Part) -> Told {
    let key = orders::product(&part(path)?)?;
    let products = products(&api).await?;
    let found = products.iter().find(|product| product.key == key);
    found.map(|product| Json(answers::product(product))).ok_or(Fault::unknown("product"))
}

/// `PUT /v1/products/{product}`
pub(crate) async fn put(State(api): Api, path: Part, body: Bytes) -> Told {
    let key = orders::product(&part(path)?)?;
    let wish: ProductBody = read(&body)?;
    let products = products(&api).await?;
    let present = products.iter().find(|product| product.key == key).map(|found| &**found);
    let (product, made) = wish.product(key.clone(), present, &*api.settings.random)?;
    let terms = |product: &Product| (product.heartbeat, product.inflight_max);
    let changed = present.is_some_and(|present| terms(present) != terms(&product));
    let mut told = answers::product(&product);
    if let Some(secret) = &made {
        told["generated_secret"] = answers::made_secret(secret);
    }
    done(&api, Command::Push(PushCommand::PutProduct(Box::new(product)))).await?;
    if changed {
        // Devices that are online hear of their new terms; the product is changed either way.
        done(&api, Command::Push(PushCommand::Configure { product: key })).await?;
    }
    Ok(Json(told))
}

/// `DELETE /v1/products/{product}`
pub(crate) async fn remove(State(api): Api, path: Part) -> Told {
    match done(&api, Command::Push(PushCommand::DropProduct(orders::product(&part(path)?)?)))
        .await?
    {
        true => Ok(Json(json!({ "removed": true }))),
        false => Err(Fault::unknown("product")),
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
