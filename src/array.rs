//! Arrays that a key shares with whoever uses them, wherever they are.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytemuck::Pod;

use crate::backend::Shared;

/// A read-only array whose clones are the same memory: a vector's, or a part of a map of a file.
pub struct Array<T>(Shared<T>);

impl<T> Array<T> {
    /// The elements of whatever holds them.
    pub fn of(holder: impl AsRef<[T]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(holder))
    }

    /// The elements that stand in a range of `bytes`: whole ones, and aligned.
    pub(crate) fn part(bytes: Shared<u8>, range: Range<usize>) -> Self
    where
        T: Pod,
    {
        Self::of(Part { bytes, range, element: PhantomData })
    }

    /// The same memory, as a backend adopts it.
    pub fn shared(&self) -> Shared<T> {
        self.0.clone()
    }
}

/// Elements in a range of bytes.
struct Part<T> {
    bytes: Shared<u8>,
    range: Range<usize>,
    element: PhantomData<fn() -> T>,
}

impl<T: Pod> AsRef<[T]> for Part<T> {
    fn as_ref(&self) -> &[T] {
        // Whole elements, and aligned, as `part` wants them: this cannot fail.
        bytemuck::cast_slice(&(*self.bytes).as_ref()[self.range.clone()])
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        (*self.0).as_ref()
    }
}

impl<T> AsRef<[T]> for Array<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send + Sync + 'static> From<Vec<T>> for Array<T> {
    fn from(elements: Vec<T>) -> Self {
        Self::of(elements)
    }
}

impl<T: Send + Sync + 'static> FromIterator<T> for Array<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Self::of(Vec::from_iter(elements))
    }
}

impl<T: Send + Sync + 'static> Default for Array<T> {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl<T: PartialEq> PartialEq for Array<T> {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl<T: Eq> Eq for Array<T> {}

impl<T: fmt::Debug> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}
