//! A body in Avro's binary encoding, as a value of a column.

use crate::avro::body::decimal;
use crate::avro::input::Input;
use crate::avro::plan::{AvroPlan, Missing, Record, Source, Step};
use crate::avro::schema::AvroSchema;
use crate::column::Column;
use crate::limits::{Error, MOST_DECODED, Result};
use crate::text;

impl AvroPlan {
    /// Appends a body to a column. After an error, the column is as before. `writer`, `reader` and `column` are those of
    /// the plan; a plan without a reader takes the writer.
    ///
    /// Returns the number of bytes that follow the body, and of those that did not come from it.
    pub(crate) fn decode(
        &self,
        writer: &AvroSchema,
        reader: &AvroSchema,
        body: &[u8],
        column: &mut Column,
    ) -> Result<(usize, usize)> {
        let before = column.len();
        let mut input = Input::new(body);
        let mut walk = Walk {
            writer,
            reader,
            text: String::new(),
            made: 0,
        };
        let result = if self.is_bare {
            walk.bare(&self.root, body, column).map(|()| 0)
        } else {
            walk.value(&self.root, &mut input, column)
                .map(|()| input.rest.len())
        };
        if result.is_err() {
            column.truncate(before);
        }
        result.map(|left_over| (left_over, walk.made))
    }
}

struct Walk<'s> {
    writer: &'s AvroSchema,
    reader: &'s AvroSchema,
    text: String,
    /// The bytes that did not come from the body.
    made: usize,
}

impl Walk<'_> {
    /// Appends bytes without a length.
    fn bare(&mut self, step: &Step, body: &[u8], column: &mut Column) -> Result<()> {
        match step {
            Step::Bytes => column.push_bytes(body),
            Step::Text => column.push_text(body),
            Step::Json(_) => {
                let writer = self.writer;
                column.push_written(|out| writer.write_json(body, out))?;
                Ok(())
            }
            Step::Member(position, step) => self.member(*position, column, |walk, member| {
                walk.bare(step, body, member)
            }),
            _ => Err(Error::misfit()),
        }
    }

    /// Appends a union that is a struct: the value of its member at a position, and null for the others.
    fn member(
        &mut self,
        position: usize,
        column: &mut Column,
        mut value: impl FnMut(&mut Self, &mut Column) -> Result<()>,
    ) -> Result<()> {
        for (at, member) in column.fields()?.iter_mut().enumerate() {
            if at == position {
                value(self, member)?;
            } else {
                self.push_null(member)?;
            }
        }
        column.close()
    }

    fn value(&mut self, step: &Step, input: &mut Input<'_>, column: &mut Column) -> Result<()> {
        match step {
            Step::Null => self.push_null(column),
            Step::Boolean => column.push_boolean(input.boolean()?),
            Step::Int => column.push_integer(input.int()?.into()),
            Step::Long => column.push_integer(input.long()?),
            Step::Time(is_int, unit) => {
                let time = if *is_int {
                    input.int()?.into()
                } else {
                    input.long()?
                };
                if !unit.is_of_day(time) {
                    return Err(Error::new("a time is not within a day"));
                }
                column.push_integer(time)
            }
            Step::Float => column.push_float(f32::from_le_bytes(input.array("float")?)),
            Step::Double => column.push_double(f64::from_le_bytes(input.array("double")?)),
            Step::Bytes => column.push_bytes(input.sized("bytes")?),
            Step::Text => column.push_text(input.sized("string")?),
            Step::Fixed(size) => column.push_bytes(input.bytes(*size, "fixed")?),
            Step::Uuid => column.push_bytes(text::uuid(input.array("uuid")?).as_bytes()),
            Step::Duration(positions) => {
                let columns = column.fields()?;
                for position in positions {
                    let value = u32::from_le_bytes(input.array("duration")?);
                    let part = columns.get_mut(*position).ok_or_else(Error::misfit)?;
                    part.push_integer(value.into())?;
                }
                for (at, other) in columns.iter_mut().enumerate() {
                    if !positions.contains(&at) {
                        self.push_null(other)?;
                    }
                }
                column.close()
            }
            Step::Enum(texts) => {
                let symbol = texts.get(input.symbol(texts.len())?);
                let text = symbol.and_then(Option::as_deref).ok_or_else(|| {
                    Error::new("a symbol of an enum is not known to the schema that is read")
                })?;
                self.make(text.len())?;
                column.push_bytes(text.as_bytes())
            }
            Step::Decimal(size) => column.push_decimal(decimal(*size, input)?),
            Step::DecimalText(size, scale) => {
                let bytes = decimal(*size, input)?;
                self.text.clear();
                text::decimal(bytes, *scale, &mut self.text);
                self.make(self.text.len())?;
                column.push_bytes(self.text.as_bytes())
            }
            Step::Record(record) => self.record(record, input, column),
            Step::Array(step) => {
                let items = column.items()?;
                input.blocks(|input| self.value(step, input, items))?;
                column.close()
            }
            Step::Map(step) => {
                let (keys, values) = column.entries()?;
                input.blocks(|input| {
                    keys.push_text(input.sized("string")?)?;
                    self.value(step, input, values)
                })?;
                column.close()
            }
            Step::Union(steps) => match steps.get(input.branch(steps.len())?) {
                Some(step) => self.value(step, input, column),
                None => Err(Error::misfit()),
            },
            Step::Member(position, step) => self.member(*position, column, |walk, member| {
                walk.value(step, input, member)
            }),
            Step::Json(node) => {
                let writer = self.writer;
                let made = column.push_written(|out| {
                    let before = out.len();
                    writer.write_value(*node, input, out)?;
                    Ok(out.len() - before)
                })?;
                self.make(made)
            }
            Step::Unresolved(reason) => Err(Error::new(reason.as_str())),
        }
    }

    fn record(
        &mut self,
        record: &Record,
        input: &mut Input<'_>,
        column: &mut Column,
    ) -> Result<()> {
        let columns = column.fields()?;
        for source in &record.fields {
            match source {
                Source::Column(position, step) => {
                    let column = columns.get_mut(*position).ok_or_else(Error::misfit)?;
                    self.value(step, input, column)?;
                }
                Source::Skip(node) => self.writer.skip_value(*node, input)?,
            }
        }
        for (position, missing) in &record.missing {
            let column = columns.get_mut(*position).ok_or_else(Error::misfit)?;
            match missing {
                Missing::Null => self.push_null(column)?,
                Missing::Default(body, step) => {
                    self.make(column.weight() + body.len())?;
                    // It is a body of the reader's schema, also where it becomes JSON text.
                    let writer = std::mem::replace(&mut self.writer, self.reader);
                    let result = self.value(step, &mut Input::new(body), column);
                    self.writer = writer;
                    result?;
                }
            }
        }
        column.close()
    }

    fn push_null(&mut self, column: &mut Column) -> Result<()> {
        self.make(column.weight())?;
        column.push_null();
        Ok(())
    }

    /// Counts bytes that do not come from the body.
    #[inline]
    fn make(&mut self, bytes: usize) -> Result<()> {
        self.made += bytes;
        if self.made > MOST_DECODED {
            return Err(Error::too_long());
        }
        Ok(())
    }
}
