//! The functions that Java calls, declared in `java/brokerless/spark/Native.java`. All unsafe code of this crate is here.
//!
//! What Java must keep, and `RecordsReader.java` keeps:
//!
//! - A handle comes from `open`, is used by one thread at a time, and is passed to `close` once, after the last use.
//! - Addresses from `next` are read only until the next call with the same handle.
//!
//! So a handle is a `Box` that nobody else refers to: it may be borrowed for one call. No other pointer is followed
//! here, and Java's arrays are copied by the JNI. A panic ends at this border: it becomes an exception of the task.

#![expect(unsafe_code, reason = "argued for above")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use jni::JNIEnv;
use jni::objects::{JByteArray, JClass, JLongArray, JObject, JObjectArray, JString};
use jni::sys::{jint, jlong, jobjectArray};

use crate::column::ADDRESSES;
use crate::error::TaskError;
use crate::reader::{COUNTS, TaskReader};

const EXCEPTION: &str = "java/io/IOException";

/// Runs `work`. Its error, or its panic, becomes an exception, and the result `failed`.
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

/// Opens a reader of a task for the columns of these names, and returns its handle.
#[unsafe(no_mangle)]
pub extern "system" fn Java_brokerless_spark_Native_open<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    task: JByteArray<'local>,
    names: JObjectArray<'local>,
) -> jlong {
    guarded(&mut env, 0, |env| {
        let task = env.convert_byte_array(task)?;
        let mut columns = Vec::new();
        for i in 0..env.get_array_length(&names)? {
            let name = JString::from(env.get_object_array_element(&names, i)?);
            columns.push(String::from(env.get_string(&name)?));
            env.delete_local_ref(name)?;
        }
        let reader = TaskReader::new(&task, &columns)?;
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
        for (i, addresses) in (0..).step_by(ADDRESSES).zip(reader.addresses()) {
            env.set_long_array_region(&out, i, &addresses.map(|address| address as jlong))?;
        }
        Ok(jint::try_from(rows).map_err(|_| TaskError::plain("too many rows"))?)
    })
}

/// Returns what the user should know of the rows so far.
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
