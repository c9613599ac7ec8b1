//! A body of JSON text, as a value of a column.

use std::borrow::Cow;

use crate::column::Column;
use crate::encode::{Fit, Misfit};
use crate::json::{valid, write_compact};
use crate::json_schema::input::Input;
use crate::json_schema::number::{double, integer};
use crate::json_schema::plan::{JsonPlan, Object, Step};
use crate::limits::{Error, MOST_DECODED, Result};

/// The characters of a member's name that an error shows.
const SHOWN: usize = 40;

impl JsonPlan {
    /// Appends a body to a column, which is that of the plan. After an error, the column is as before. Returns the number
    /// of bytes that did not come from the body.
    pub(crate) fn decode(&self, body: &[u8], column: &mut Column) -> Result<usize> {
        let before = column.len();
        let mut walk = Walk {
            input: Input::new(valid(body)?),
            made: 0,
        };
        let result = walk.value(&self.root, column);
        debug_assert!(result.is_err() || walk.input.next().is_none());
        result.map(|()| walk.made).map_err(|misfit| {
            column.truncate(before);
            // In the notation of JSONPath.
            misfit.at("$")
        })
    }
}

struct Walk<'b> {
    input: Input<'b>,
    /// The bytes that did not come from the body.
    made: usize,
}

impl<'b> Walk<'b> {
    /// Appends the next value. Every type has null.
    fn value(&mut self, step: &Step, column: &mut Column) -> Fit {
        let first = self.input.next();
        match (step, first) {
            (_, Some(b'n')) => {
                self.input.value()?;
                self.push_null(column)?;
            }
            (Step::Boolean, Some(b't' | b'f')) => {
                self.input.value()?;
                column.push_boolean(first == Some(b't'))?;
            }
            (Step::Integer, Some(b'-' | b'0'..=b'9')) => {
                let number = integer(self.input.value()?);
                column.push_integer(number.ok_or_else(|| unlike(step, first))?)?;
            }
            (Step::Number, Some(b'-' | b'0'..=b'9')) => {
                let number = double(self.input.value()?);
                column.push_double(number.ok_or_else(|| unlike(step, first))?)?;
            }
            (Step::Text, Some(b'"')) => column.push_bytes(self.input.string()?.as_bytes())?,
            (Step::Object(object), Some(b'{')) => self.object(object, column)?,
            (Step::Map(step), Some(b'{')) => self.map(step, column)?,
            (Step::List(step), Some(b'[')) => {
                let items = column.items()?;
                let mut is_more = self.input.open(b']');
                while is_more {
                    self.value(step, items).map_err(Misfit::in_each)?;
                    is_more = self.input.more(b']');
                }
                column.close()?;
            }
            (Step::Json, _) => {
                let text = self.input.value()?;
                column.push_written(|out| {
                    write_compact(text.as_bytes(), out);
                    Ok(())
                })?;
            }
            _ => return Err(unlike(step, first)),
        }
        Ok(())
    }

    fn object(&mut self, object: &Object, column: &mut Column) -> Fit {
        let row = column.len();
        let columns = column.fields()?;
        let mut next = 0;
        let mut is_more = self.input.open(b'}');
        while is_more {
            let name = self.input.name()?;
            let position = object.position(&name, next);
            let found =
                position.and_then(|at| Some((at, object.fields.get(at)?, columns.get_mut(at)?)));
            let Some((position, (name, Some(step)), column)) = found else {
                return Err(Misfit::new("a member is not in the schema"));
            };
            // The last one of members with the same name counts.
            if column.len() > row {
                column.truncate(row);
            }
            self.value(step, column).map_err(|misfit| {
                let shown: String = name.chars().take(SHOWN).collect();
                misfit.in_field(&shown)
            })?;
            next = position + 1;
            is_more = self.input.more(b'}');
        }
        for column in columns {
            if column.len() == row {
                self.push_null(column)?;
            }
        }
        Ok(column.close()?)
    }

    fn map(&mut self, step: &Step, column: &mut Column) -> Fit {
        let mut entries: Vec<(Cow<'b, str>, &'b str)> = Vec::new();
        let mut is_more = self.input.open(b'}');
        while is_more {
            entries.push((self.input.name()?, self.input.value()?));
            is_more = self.input.more(b'}');
        }
        let is_last = last_of_each(&entries);
        let (keys, values) = column.entries()?;
        let rest = std::mem::replace(&mut self.input, Input::new(""));
        for ((name, text), is_last) in entries.iter().zip(is_last) {
            if is_last {
                keys.push_bytes(name.as_bytes())?;
                self.input = Input::new(text);
                self.value(step, values).map_err(Misfit::in_each)?;
            }
        }
        self.input = rest;
        Ok(column.close()?)
    }

    fn push_null(&mut self, column: &mut Column) -> Result<()> {
        self.made += column.weight();
        if self.made > MOST_DECODED {
            return Err(Error::too_long());
        }
        column.push_null();
        Ok(())
    }
}

/// True for each entry that no later one has the key of: the last one counts.
///
/// A table of the keys would take several times the bytes of a body of short ones.
fn last_of_each(entries: &[(Cow<'_, str>, &str)]) -> Vec<bool> {
    let key = |place: usize| entries.get(place).map(|(name, _)| (name.as_ref(), place));
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_unstable_by_key(|&place| key(place));
    let mut is_last = vec![true; entries.len()];
    for pair in order.windows(2) {
        if let &[one, other] = pair
            && key(one).map(|(name, _)| name) == key(other).map(|(name, _)| name)
            && let Some(is_last) = is_last.get_mut(one)
        {
            *is_last = false;
        }
    }
    is_last
}

/// The value that begins with a byte is none of its type.
#[cold]
fn unlike(step: &Step, first: Option<u8>) -> Misfit {
    let expected = step.expected();
    let found = match first {
        Some(b'"') => "text",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a boolean",
        _ => "this number",
    };
    Misfit::new(format!("{expected} is expected, not {found}"))
}
