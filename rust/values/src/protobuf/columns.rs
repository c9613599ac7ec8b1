//! A body in Protobuf's wire format, as a value of a column.

use std::ops::Range;

use brokerless_core::{Framed, Json};

use crate::column::Column;
use crate::limits::{Error, MOST_DECODED, Result};
use crate::protobuf::body::{Key, Parts, Scalar, Walk};
use crate::protobuf::plan::{Object, ProtobufPlan, Step, Way};
use crate::protobuf::schema::{Field, Kind, Message, MessageId, ProtobufSchema, Shape};
use crate::protobuf::wire::{Input, Wire};

const MICROS: i64 = 1_000_000;

impl ProtobufPlan {
    /// Appends a key or value to a column, and returns the bytes that did not come from its body. After an error, the
    /// column is as before.
    ///
    /// `reader` and `column` are those of the plan. A field without presence that is missing has its default, a list or
    /// map without items is empty, and every other missing field is null.
    pub(crate) fn decode(
        &self,
        writer: &ProtobufSchema,
        reader: &ProtobufSchema,
        framed: &Framed<'_>,
        column: &mut Column,
    ) -> Result<usize> {
        let (id, body) = writer.split(framed)?;
        if Some(id) != self.written {
            let written = writer.root_name(id).unwrap_or("another message");
            return Err(Error::new(format!(
                "{written} is written, and {} is read",
                self.name
            )));
        }
        let before = column.len();
        let mut json = Vec::new();
        let start = Json::new(&mut json).mark();
        let mut decoding = Decoding {
            walk: Walk::new(reader, body, start)?,
            made: 0,
        };
        let result = decoding.message(self.root, &self.step, &Parts::Body, column);
        if result.is_err() {
            column.truncate(before);
        }
        result.map(|()| decoding.made)
    }
}

/// The column of a field, and the step to it; None if it has none.
#[inline]
fn to_column<'c, 'p>(
    way: &'p Way,
    columns: &'c mut [Column],
) -> Option<(&'c mut Column, &'p Step)> {
    let (at, step) = way.column.as_ref()?;
    Some((columns.get_mut(*at)?, step))
}

struct Decoding<'a> {
    walk: Walk<'a>,
    /// The bytes that did not come from the body.
    made: usize,
}

impl<'a> Decoding<'a> {
    fn message(
        &mut self,
        id: MessageId,
        step: &Step,
        parts: &Parts,
        column: &mut Column,
    ) -> Result<()> {
        self.deeper(|decoding| decoding.message_here(id, step, parts, column))
    }

    /// Calls `append` one level deeper.
    fn deeper<T>(&mut self, append: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.walk.limits.depth == 0 {
            return Err(Error::too_deep());
        }
        self.walk.limits.depth -= 1;
        let result = append(self);
        self.walk.limits.depth += 1;
        result
    }

    fn message_here(
        &mut self,
        id: MessageId,
        step: &Step,
        parts: &Parts,
        column: &mut Column,
    ) -> Result<()> {
        if let Step::Json = step {
            return self.json(column, |walk, json| walk.inner(id, parts, json));
        }
        let schema = self.walk.schema;
        let message = schema.message(id)?;
        if let Step::Object(object) = step
            && let Some(input) = self.walk.whole(parts)?
        {
            let rows = column.len();
            let (base, made) = (self.walk.found.len(), self.made);
            if self.stream(message, object, input, column)? {
                return Ok(());
            }
            self.made = made;
            column.truncate(rows);
            self.walk.found.truncate(base);
        }
        let base = self.walk.find(message, parts)?;
        match step {
            Step::Object(object) => self.object(message, object, base, column)?,
            Step::Timestamp | Step::Duration => {
                let seconds = self.walk.int(message, 0, base)?;
                let nanos = self.walk.int(message, 1, base)?;
                // A timestamp is rounded to the past, and a duration towards zero, as Protobuf's libraries do.
                let rest = match step {
                    Step::Timestamp => nanos.div_euclid(1000),
                    _ => nanos / 1000,
                };
                let micros = seconds
                    .checked_mul(MICROS)
                    .and_then(|micros| micros.checked_add(rest));
                column.push_integer(micros.ok_or_else(|| {
                    Error::new("a time does not fit into 64 bits of microseconds")
                })?)?;
            }
            Step::Bare(kind) => {
                let scalar = match self.walk.last(0, base) {
                    Some(index) => self.walk.scalar(*kind, &mut self.walk.input(index)?)?,
                    None => self.walk.zero(*kind),
                };
                self.push(scalar, column)?;
            }
            Step::Scalar | Step::List(_) | Step::Map(_) | Step::Json => {
                return Err(Error::misfit());
            }
        }
        self.walk.found.truncate(base);
        Ok(())
    }

    /// Appends a message as its values come, in one pass. Returns false if they do not have the order of their numbers,
    /// if one comes twice, or if a oneof changes: then parts of a value were appended, and a second look at all values
    /// must find the last ones.
    fn stream(
        &mut self,
        message: &'a Message,
        object: &Object,
        mut input: Input<'a>,
        column: &mut Column,
    ) -> Result<bool> {
        let columns = column.fields()?;
        let mut ways = object.ways.as_slice();
        let mut oneofs = 0_u64;
        let mut tag = input.next_tag()?;
        while let Some(found) = tag {
            if let [way, rest @ ..] = ways
                && let Some((own, kind)) = way.scalar
                && own == found
                && let Some((column, _)) = to_column(way, columns)
            {
                ways = rest;
                self.scalar(kind, &mut input, column)?;
                tag = input.next_tag()?;
                continue;
            }
            let (number, wire) = found.parts()?;
            while let [way, rest @ ..] = ways
                && way.number < number
            {
                self.leave_out(message, way, columns)?;
                ways = rest;
            }
            let Some((way, rest)) = ways.split_first().filter(|(way, _)| way.number == number)
            else {
                if message.position(number).is_some() {
                    return Ok(false);
                }
                input.skip(number, wire)?;
                tag = input.next_tag()?;
                continue;
            };
            let field = message.fields.get(way.position as usize);
            let field = field.ok_or_else(Error::misfit)?;
            if !field.fits(wire) {
                input.skip(number, wire)?;
                tag = input.next_tag()?;
                continue;
            }
            if let Some(oneof) = field.oneof {
                let bit = 1_u64.checked_shl(oneof).unwrap_or_default();
                if bit == 0 || oneofs & bit != 0 {
                    return Ok(false);
                }
                oneofs |= bit;
            }
            let Some((column, step)) = to_column(way, columns) else {
                input.skip(number, wire)?;
                tag = input.next_tag()?;
                continue;
            };
            ways = rest;
            tag = match (step, field.kind) {
                (Step::Scalar, kind) => {
                    self.scalar(kind, &mut input, column)?;
                    input.next_tag()?
                }
                (Step::Object(object), Kind::Message(id)) if wire == Wire::Sized => {
                    let part = input.part()?;
                    if !self.stream_message(id, object, part, column)? {
                        return Ok(false);
                    }
                    input.next_tag()?
                }
                (Step::List(step), kind)
                    if wire != Wire::StartGroup
                        && matches!(**step, Step::Scalar | Step::Object(_)) =>
                {
                    let items = column.items()?;
                    let mut wire = wire;
                    let next = loop {
                        if wire == Wire::StartGroup
                            || !self.stream_items(kind, step, wire, &mut input, items)?
                        {
                            return Ok(false);
                        }
                        let next = input.next_tag()?;
                        match field.wire_of(next)? {
                            Some(its) => wire = its,
                            None => break next,
                        }
                    };
                    column.close()?;
                    next
                }
                _ => {
                    let base = self.walk.found.len();
                    let mut wire = wire;
                    let next = loop {
                        self.walk.note(way.position, wire, input.at())?;
                        input.skip(number, wire)?;
                        let next = input.next_tag()?;
                        match field.wire_of(next)? {
                            Some(its) => wire = its,
                            None => break next,
                        }
                    };
                    self.field(field, step, base..self.walk.found.len(), column)?;
                    self.walk.found.truncate(base);
                    next
                }
            };
        }
        for way in ways {
            self.leave_out(message, way, columns)?;
        }
        self.end(object, column)?;
        Ok(true)
    }

    /// Appends the value of a field that is missing to its column.
    fn leave_out(&mut self, message: &Message, way: &Way, columns: &mut [Column]) -> Result<()> {
        let field = message.fields.get(way.position as usize);
        match (to_column(way, columns), field) {
            (Some((column, step)), Some(field)) => self.missing(field, step, column),
            _ => Ok(()),
        }
    }

    /// Completes a message all of whose fields have a value.
    #[inline]
    fn end(&mut self, object: &Object, column: &mut Column) -> Result<()> {
        let columns = column.fields()?;
        for &at in &object.absent {
            self.push_null(columns.get_mut(at).ok_or_else(Error::misfit)?)?;
        }
        self.make(1)?;
        column.close()
    }

    fn stream_message(
        &mut self,
        id: MessageId,
        object: &Object,
        part: Input<'a>,
        column: &mut Column,
    ) -> Result<bool> {
        let message = self.walk.schema.message(id)?;
        self.deeper(|decoding| decoding.stream(message, object, part, column))
    }

    /// Appends the items of a list that come next: several if they are packed.
    #[inline(always)]
    fn stream_items(
        &mut self,
        kind: Kind,
        step: &Step,
        wire: Wire,
        input: &mut Input<'a>,
        items: &mut Column,
    ) -> Result<bool> {
        match (step, kind) {
            (Step::Object(object), Kind::Message(id)) => {
                let part = input.part()?;
                self.stream_message(id, object, part, items)
            }
            (Step::Scalar, kind) if kind.wire() != Wire::Sized && wire == Wire::Sized => {
                let mut packed = input.part()?;
                while !packed.is_empty() {
                    self.scalar(kind, &mut packed, items)?;
                }
                Ok(true)
            }
            (Step::Scalar, kind) => {
                self.scalar(kind, input, items)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn object(
        &mut self,
        message: &'a Message,
        object: &Object,
        base: usize,
        column: &mut Column,
    ) -> Result<()> {
        let columns = column.fields()?;
        let mut at = base;
        for way in &object.ways {
            let Some((column, step)) = to_column(way, columns) else {
                continue;
            };
            let field = message.fields.get(way.position as usize);
            let field = field.ok_or_else(Error::misfit)?;
            let values = self.values(way.position, base, &mut at);
            if values.is_empty() {
                self.missing(field, step, column)?;
            } else {
                self.field(field, step, values, column)?;
            }
        }
        self.end(object, column)
    }

    /// The values of a field. `at` is where those of the field before it ended: numbers mostly have the order of fields.
    fn values(&self, position: u32, base: usize, at: &mut usize) -> Range<usize> {
        let found = self.walk.found.as_slice();
        if *at > base
            && found
                .get(*at - 1)
                .is_some_and(|one| one.field() >= position)
        {
            *at = base;
        }
        let rest = found.get(*at..).unwrap_or_default();
        *at += match rest.first() {
            Some(first) if first.field() < position => {
                rest.partition_point(|one| one.field() < position)
            }
            _ => 0,
        };
        let start = *at;
        let rest = found.get(start..).unwrap_or_default();
        *at += rest
            .iter()
            .take_while(|one| one.field() == position)
            .count();
        start..*at
    }

    fn field(
        &mut self,
        field: &'a Field,
        step: &Step,
        values: Range<usize>,
        column: &mut Column,
    ) -> Result<()> {
        match (step, field.kind) {
            (Step::Json, _) => self.json(column, |walk, json| {
                walk.value(field, values, json).map(|_| ())
            }),
            (Step::List(step), kind) => {
                let items = column.items()?;
                for index in values {
                    self.items(kind, step, index, items)?;
                }
                column.close()
            }
            (Step::Map(step), Kind::Message(id)) => {
                self.map(id, step, values, column)?;
                column.close()
            }
            (step, Kind::Message(id)) => self.message(id, step, &Parts::Found(values), column),
            (_, kind) => {
                // The last one wins.
                let scalar = self
                    .walk
                    .scalar(kind, &mut self.walk.input(values.end - 1)?)?;
                self.push(scalar, column)
            }
        }
    }

    /// Appends the items of a list that are in one value: several if they are packed.
    fn items(&mut self, kind: Kind, step: &Step, index: usize, items: &mut Column) -> Result<()> {
        if let Kind::Message(id) = kind {
            return self.message(id, step, &Parts::Found(index..index + 1), items);
        }
        let mut input = self.walk.input(index)?;
        if kind.wire() == Wire::Sized || !self.walk.is_sized(index) {
            let scalar = self.walk.scalar(kind, &mut input)?;
            return self.item(scalar, step, items);
        }
        let mut packed = input.part()?;
        while !packed.is_empty() {
            let scalar = self.walk.scalar(kind, &mut packed)?;
            self.item(scalar, step, items)?;
        }
        Ok(())
    }

    fn item(&mut self, scalar: Scalar<'a>, step: &Step, items: &mut Column) -> Result<()> {
        match step {
            Step::Json => self.json(items, |walk, json| {
                walk.write(scalar, json);
                Ok(())
            }),
            _ => self.push(scalar, items),
        }
    }

    fn map(
        &mut self,
        id: MessageId,
        step: &Step,
        values: Range<usize>,
        column: &mut Column,
    ) -> Result<()> {
        let schema = self.walk.schema;
        let (entry, key, value) = schema.entry(id)?;
        let (keys, items) = column.entries()?;
        for (name, index) in self.walk.entries(entry, key, values)? {
            self.make(8)?;
            match (name, key.kind) {
                (Key::Int(number), _) => keys.push_integer(number)?,
                (Key::Unsigned(number), _) => keys.push_unsigned(number)?,
                (Key::Text(text), Kind::Bool) => keys.push_boolean(text == "true")?,
                (Key::Text(text), _) => keys.push_bytes(text.as_bytes())?,
            }
            let base = self.walk.find(entry, &Parts::Found(index..index + 1))?;
            match (self.walk.first(1, base), value.kind) {
                (Some(first), _) => {
                    self.field(value, step, first..self.walk.found.len(), items)?;
                }
                (None, Kind::Message(id)) => self.message(id, step, &Parts::Found(0..0), items)?,
                (None, kind) => self.item(self.walk.zero(kind), step, items)?,
            }
            self.walk.found.truncate(base);
        }
        Ok(())
    }

    /// Appends the value of a field that is missing.
    fn missing(&mut self, field: &Field, step: &Step, column: &mut Column) -> Result<()> {
        match (step, field.shape) {
            (Step::List(_) | Step::Map(_), _) => {
                self.make(4)?;
                column.close()
            }
            (Step::Scalar, Shape::Implicit) => {
                self.make(8)?;
                self.push(self.walk.zero(field.kind), column)
            }
            // The column is of several types. A missing optional field remains null.
            (Step::Json, Shape::Implicit | Shape::Repeated | Shape::Map) => {
                self.json(column, |walk, json| walk.default(field, json))
            }
            _ => self.push_null(column),
        }
    }

    /// Appends a value that is no message.
    #[inline(always)]
    fn scalar(&mut self, kind: Kind, input: &mut Input<'a>, column: &mut Column) -> Result<()> {
        if kind == Kind::String {
            return column.push_text(input.sized()?);
        }
        let scalar = self.walk.scalar(kind, input)?;
        self.push(scalar, column)
    }

    #[inline(always)]
    fn push(&mut self, scalar: Scalar<'_>, column: &mut Column) -> Result<()> {
        match scalar {
            Scalar::Int(value) => column.push_integer(value),
            Scalar::Unsigned(value) => column.push_unsigned(value),
            Scalar::Float(value) => column.push_float(value),
            Scalar::Double(value) => column.push_double(value),
            Scalar::Bool(value) => column.push_boolean(value),
            Scalar::Text(text) => column.push_bytes(text.as_bytes()),
            Scalar::Bytes(bytes) => column.push_bytes(bytes),
            Scalar::Enum(id, number) => {
                let known = self.walk.schema.enums.get(id);
                match known.and_then(|known| known.name(number)) {
                    Some(name) => {
                        self.make(name.len())?;
                        column.push_bytes(name.as_bytes())
                    }
                    None => column.push_bytes(number.to_string().as_bytes()),
                }
            }
        }
    }

    fn push_null(&mut self, column: &mut Column) -> Result<()> {
        self.make(column.weight())?;
        column.push_null();
        Ok(())
    }

    /// Appends a value as JSON text.
    fn json(
        &mut self,
        column: &mut Column,
        write: impl FnOnce(&mut Walk<'a>, &mut Json<'_>) -> Result<()>,
    ) -> Result<()> {
        let walk = &mut self.walk;
        let made = column.push_written(|out| {
            let mut json = Json::new(out);
            walk.start = json.mark();
            write(walk, &mut json)?;
            Ok(json.since(&walk.start).len())
        })?;
        self.make(made)
    }

    /// Counts bytes that do not come from the body.
    fn make(&mut self, bytes: usize) -> Result<()> {
        self.made += bytes;
        if self.made > MOST_DECODED {
            return Err(Error::too_long());
        }
        Ok(())
    }
}
