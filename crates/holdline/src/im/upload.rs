//! Uploading a file: leave from the server, a PUT to the storage, and the note that tells of it.

use super::{Failure, answer};
use client::im::{ImEvent, ImOrder, ImSession};
use model::chat::Content;
use model::media::{FileNote, UploadSlot, UploadWish, type_by_name};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Time for a whole upload.
const UPLOAD_TIME: Duration = Duration::from_secs(3_600);
/// Time for the storage to be reached.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Uploads a file; the content of a message that tells of it, with this text or its name.
pub(super) fn upload(
    session: &mut ImSession,
    path: &Path,
    (media_type, text): (Option<&str>, Option<&str>),
) -> Result<Content, Failure> {
    let named = |error| Failure(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(named)?;
    let bytes = file.metadata().map_err(named)?.len();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.ok_or_else(|| Failure(format!("{}: not a file name", path.display())))?;
    let media_type = media_type.unwrap_or_else(|| type_by_name(&name)).to_owned();
    let wish =
        UploadWish { name: name.as_str().into(), media_type: media_type.as_str().into(), bytes };
    session.order(ImOrder::Upload { number: 0, wish: Box::new(wish) });
    let slot = answer(session, |event| match event {
        ImEvent::Upload { number: 0, slot } => Some(Ok(slot)),
        ImEvent::Failed { number: 0, word, .. } => Some(Err(format!("not uploaded: {word}"))),
        _ => None,
    })?;
    put(&slot, &file)?;
    let note = FileNote {
        url: &slot.get_url,
        name: &name,
        media_type: &media_type,
        bytes,
        ..FileNote::default()
    };
    let text = text.unwrap_or(&name).into();
    Ok(Content { kind: Content::FILE, text, extra: note.write(), ..Content::text("") })
}

fn put(slot: &UploadSlot, file: &File) -> Result<(), Failure> {
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(UPLOAD_TIME))
        .timeout_connect(Some(CONNECT_TIME))
        .http_status_as_error(false)
        .build()
        .new_agent();
    let mut request = agent.put(&*slot.put_url);
    for (name, value) in &slot.headers {
        request = request.header(&**name, &**value);
    }
    match request.send(file) {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => {
            Err(Failure(format!("not uploaded: the storage answered {}", answer.status())))
        }
        Err(error) => Err(Failure(format!("not uploaded: {error}"))),
    }
}
