//! The functions that Java calls, declared in `java/brokerless/spark/Native.java`. All unsafe code of this crate is here.
//!
//! Java must obey these rules, as `RecordsReader.java` and `PartWriter.java` do:
//!
//! - A handle comes from `open` or `openWriter`, is used by one thread at a time, and is passed to `close` or
//!   `closeWriter` once, after the last use.
//! - Addresses from `next` are read only until the next call of `next` or `close` with the same handle.
//! - The block of memory given to `write` was allocated, and is neither freed nor changed during the call.
//!
//! Because of these rules, a handle is a `Box` to which nothing else refers, and may be borrowed for one call. No other
//! pointer is followed here, and the JNI copies Java's arrays. A panic does not leave these functions: it becomes an
//! exception of the task.

#![expect(unsafe_code, reason = "argued for above")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use jni::JNIEnv;
use jni::objects::{JByteArray, JClass, JLongArray, JObject, JObjectArray, JString};
use jni::sys::{jbyteArray, jint, jlong, jobjectArray};

use crate::error::TaskError;
use crate::part_writer::PartWriter;
use crate::reader::{COUNTS, TaskReader};

const EXCEPTION: &str = "java/io/IOException";

/// Runs `work`. If it fails or panics, throws an exception and returns `failed`.
fn guarded<T>(
    env: &mut JNIEnv<'_>,
    failed: T,
    work: impl FnOnce(&mut JNIEnv<'_>) -> Result<T, Box<dyn std::error::Error>>,
) -> T {
    let message = match catch_unwind(AssertUnwindSafe(|| work(env))) {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => error.to_string(),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            format!(
                "a defect of brokerless, please report it: {}",
                text.unwrap_or("panic")
            )
        }
    };
    // A failed call of the JNI has thrown its own exception.
    if !env.exception_check().unwrap_or(true) {
        let _ = env.throw_new(EXCEPTION, message);
    }
    failed
}

/// Copies an array of strings.
fn strings(
    env: &mut JNIEnv<'_>,
    array: &JObjectArray<'_>,
) -> Result<Vec<String>, jni::errors::Error> {
    let mut strings = Vec::new();
    for i in 0..env.get_array_length(array)? {
        let string = JString::from(env.get_object_array_element(array, i)?);
        strings.push(String::from(env.get_string(&string)?));
        env.delete_local_ref(string)?;
    }
    Ok(strings)
}

/// Opens a reader of a task for the columns of these names, and returns its handle.
#[unsafe(no_mangle)]
pub extern "system" fn Java_brokerless_spark_Native_open<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    task: JByteArray<'local>,
    names: JObjectArray<'local>,
    decoding: JByteArray<'local>,
    criteria: JByteArray<'local>,
) -> jlong {
    guarded(&mut env, 0, |env| {
        let task = env.convert_byte_array(task)?;
        let columns = strings(env, &names)?;
        let decoding = env.convert_byte_array(decoding)?;
        let criteria = env.convert_byte_array(criteria)?;
        let reader = TaskReader::new(&task, &columns, &decoding, &criteria)?;
        Ok(Box::into_raw(Box::new(reader)) as jlong)
    })
}

/// Returns the tasks that may have rows within `bounds`: see [`crate::narrow`].
#[unsafe(no_mangle)]
pub extern "system" fn Java_brokerless_spark_Native_narrow<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    tasks: JObjectArray<'local>,
    bounds: JByteArray<'local>,
) -> jobjectArray {
    guarded(&mut env, std::ptr::null_mut(), |env| {
        let bounds = env.convert_byte_array(bounds)?;
        let mut planned = Vec::new();
        for i in 0..env.get_array_length(&tasks)? {
            let task = JByteArray::from(env.get_object_array_element(&tasks, i)?);
            planned.push(env.convert_byte_array(&task)?);
            env.delete_local_ref(task)?;
        }
        let narrowed = crate::narrow(&planned, &bounds)?;
        let result = env.new_object_array(narrowed.len() as jint, "[B", JObject::null())?;
        for (i, task) in (0..).zip(&narrowed) {
            let task = env.byte_array_from_slice(task)?;
            env.set_object_array_element(&result, i, &task)?;
            env.delete_local_ref(task)?;
        }
        Ok(result.into_raw())
    })
}

/// Decodes the next rows, and returns their number; -1 at the end. `out` gets the addresses of each column's arrays, and
/// the counts of the reader.
#[unsafe(no_mangle)]
pub extern "system" fn Java_brokerless_spark_Native_next<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    handle: jlong,
    out: JLongArray<'local>,
) -> jint {
    // SAFETY: the handle is from `open` and not closed, and nobody else uses it during this call.
    let reader = unsafe { &mut *(handle as *mut TaskReader) };
    guarded(&mut env, -1, |env| {
        let rows = reader.next_rows()?;
        let end = env.get_array_length(&out)? - COUNTS as jint;
        env.set_long_array_region(&out, end, &reader.counts().map(|count| count as jlong))?;
        let Some(rows) = rows else {
            return Ok(-1);
        };
        let addresses = reader.addresses();
        // Java reads as many as the types of its columns have.
        if i32::try_from(addresses.len()).ok() != Some(end) {
            let message = "the columns have other types than the plan: load the source again";
            return Err(TaskError::plain(message).into());
        }
        let addresses: Vec<_> = addresses.into_iter().map(|one| one as jlong).collect();
        env.set_long_array_region(&out, 0, &addresses)?;
        Ok(jint::try_from(rows).map_err(|_| TaskError::plain("too many rows"))?)
    })
}

/// Returns the warnings for the user about the rows so far.
#[unsafe(no_mangle)]
pub extern "system" fn Java_brokerless_spark_Native_warnings<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    handle: jlong,
) -> jobjectArray {
    // SAFETY: as in `next`.
    let reader = unsafe { &mut *(handle as *mut TaskReader) };
    guarded(&mut env, std::ptr::null_mut(), |env| {
        let warnings = reader.warnings();
        let class = env.find_class("java/lang/String")?;
        let empty = env.new_string("")?;
        let texts = env.new_object_array(warnings.len() as jint, class, empty)?;
        for (i, text) in (0..).zip(&warnings) {
            let text = env.new_string(text)?;
            env.set_object_array_element(&texts, i, &text)?;
            env.delete_local_ref(text)?;
        }
        Ok(texts.into_raw())
    })
}

/// Closes the file of a reader. The addresses of its last rows stay valid. Returns their size in bytes.
#[unsafe(no_mangle)]
pub extern "system" fn Java_brokerless_spark_Native_stop<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    handle: jlong,
) -> jlong {
    // SAFETY: as in `next`.
    let reader = unsafe { &mut *(handle as *mut TaskReader) };
    guarded(&mut env, 0, |_| Ok(reader.stop() as jlong))
}

/// Closes a reader.
#[unsafe(no_mangle)]
pub extern "system" fn Java_brokerless_spark_Native_close<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    handle: jlong,
) {
    guarded(&mut env, (), |_| {
        // SAFETY: the handle is from `open`, and this is its last use.
        drop(unsafe { Box::from_raw(handle as *mut TaskReader) });
        Ok(())
    });
}

/// Opens a writer of one attempt at a task: see [`PartWriter::new`].
#[unsafe(no_mangle)]
pub extern "system" fn Java_brokerless_spark_Native_openWriter<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    task: JByteArray<'local>,
    names: JObjectArray<'local>,
    query: JString<'local>,
    unique: JString<'local>,
) -> jlong {
    guarded(&mut env, 0, |env| {
        let task = env.convert_byte_array(task)?;
        let names = strings(env, &names)?;
        let query = String::from(env.get_string(&query)?);
        let unique = String::from(env.get_string(&unique)?);
        let writer = PartWriter::new(&task, &names, query, &unique)?;
        Ok(Box::into_raw(Box::new(writer)) as jlong)
    })
}

/// Writes the block of rows of this size at an address.
#[unsafe(no_mangle)]
pub extern "system" fn Java_brokerless_spark_Native_write<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    handle: jlong,
    address: jlong,
    size: jlong,
) {
    // SAFETY: as in `next`, with a handle from `openWriter`.
    let writer = unsafe { &mut *(handle as *mut PartWriter) };
    guarded(&mut env, (), |_| {
        let size = usize::try_from(size)?;
        // SAFETY: the caller allocated these bytes, and neither frees nor changes them during this call.
        let block = unsafe { std::slice::from_raw_parts(address as *const u8, size) };
        Ok(writer.write(block)?)
    });
}

/// Returns the information about the parts for the commit, as JSON.
#[unsafe(no_mangle)]
pub extern "system" fn Java_brokerless_spark_Native_finish<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    handle: jlong,
) -> jbyteArray {
    // SAFETY: as in `write`.
    let writer = unsafe { &mut *(handle as *mut PartWriter) };
    guarded(&mut env, std::ptr::null_mut(), |env| {
        Ok(env.byte_array_from_slice(&writer.finish()?)?.into_raw())
    })
}

/// Removes the parts.
#[unsafe(no_mangle)]
pub extern "system" fn Java_brokerless_spark_Native_abort<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    handle: jlong,
) {
    // SAFETY: as in `write`.
    let writer = unsafe { &mut *(handle as *mut PartWriter) };
    guarded(&mut env, (), |_| {
        writer.abort();
        Ok(())
    });
}

/// Closes a writer.
#[unsafe(no_mangle)]
pub extern "system" fn Java_brokerless_spark_Native_closeWriter<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    handle: jlong,
) {
    guarded(&mut env, (), |_| {
        // SAFETY: the handle is from `openWriter`, and this is its last use.
        drop(unsafe { Box::from_raw(handle as *mut PartWriter) });
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

    use jni::errors::StartJvmError;
    use jni::{InitArgsBuilder, JavaVM};

    use super::*;

    /// Calls `work` from a JVM. Without a JDK it does nothing, except in CI.
    fn in_jvm(work: impl FnOnce(&mut JNIEnv<'_>)) {
        let arguments = InitArgsBuilder::new()
            .option("-Xshare:auto")
            .build()
            .unwrap();
        match JavaVM::new(arguments) {
            Ok(jvm) => work(&mut jvm.attach_current_thread().unwrap()),
            Err(error @ (StartJvmError::NotFound(_) | StartJvmError::LoadError(..))) => {
                assert!(std::env::var_os("CI").is_none(), "{error}");
                eprintln!("skipped, as there is no JVM: {error}");
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Takes the pending exception, and returns its class and message.
    fn thrown(env: &mut JNIEnv<'_>) -> (String, String) {
        let exception = env.exception_occurred().unwrap();
        env.exception_clear().unwrap();
        let class = env.get_object_class(&exception).unwrap();
        let mut text = |object: &JObject<'_>, method: &str| {
            let text = env
                .call_method(object, method, "()Ljava/lang/String;", &[])
                .unwrap();
            let text = JString::from(text.l().unwrap());
            String::from(env.get_string(&text).unwrap())
        };
        (text(&class, "getName"), text(&exception, "getMessage"))
    }

    /// All checks are in one test, because a process can have only one JVM.
    #[test]
    fn errors_and_panics_are_exceptions_and_the_jvm_goes_on() {
        in_jvm(|env| {
            let words = "a defect of brokerless, please report it: ";
            let io_exception = |message: String| ("java.io.IOException".to_owned(), message);

            assert_eq!(guarded(env, -1, |_| panic!("of {}", "text")), -1);
            assert_eq!(thrown(env), io_exception(format!("{words}of text")));

            let none: Vec<u8> = Vec::new();
            assert_eq!(guarded(env, 7, |_| Ok(i32::from(none[none.len()]))), 7);
            let (class, message) = thrown(env);
            assert_eq!(class, "java.io.IOException");
            assert!(
                message.starts_with(words) && message.contains("out of bounds"),
                "{message}"
            );

            assert_eq!(guarded(env, 0, |_| std::panic::panic_any(5)), 0);
            assert_eq!(thrown(env), io_exception(format!("{words}panic")));

            assert_eq!(
                guarded(env, 0, |_| Err(TaskError::plain("of a task").into())),
                0
            );
            assert_eq!(thrown(env), io_exception("of a task".to_owned()));

            // Java's own exception says more than that there was one.
            guarded(env, (), |env| {
                Ok(env.find_class("no/such/Class").map(drop)?)
            });
            assert_eq!(thrown(env).0, "java.lang.NoClassDefFoundError");

            let name = guarded(env, String::new(), |env| {
                let text = env.new_string("alive")?;
                Ok(String::from(env.get_string(&text)?))
            });
            assert_eq!(name, "alive");
            assert!(!env.exception_check().unwrap());
        });
    }
}
