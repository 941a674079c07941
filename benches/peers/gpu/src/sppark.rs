//! sppark behind safe types. The only file that is not safe.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::null_mut;

use anyhow::{Result, anyhow};
use bytemuck::Zeroable;
use forebay::curve::{Affine, Coordinate, Point};
use forebay::field::{Fp, Fp2, Fr};
use sppark::Error;

// cuda/sums.cu and cuda/transforms.cu. Pointers called `sum` and `vector` are theirs, the others the host's.
unsafe extern "C" {
    fn peer_start() -> Error;
    fn peer_trim() -> Error;

    fn peer_vector_open(vector: &mut *mut c_void, len: usize) -> Error;
    fn peer_vector_upload(vector: *mut c_void, from: *const Fr, len: usize) -> Error;
    fn peer_vector_download(vector: *const c_void, to: *mut Fr, len: usize) -> Error;
    fn peer_vector_close(vector: *mut c_void) -> Error;

    fn peer_evaluate(vector: *mut c_void, log_n: u32, count: u32) -> Error;
    fn peer_quotient(
        a: *mut c_void,
        b: *mut c_void,
        c: *mut c_void,
        log_n: u32,
        count: u32,
    ) -> Error;

    fn peer_g1_open(sum: &mut *mut c_void, points: *const c_void, len: usize) -> Error;
    fn peer_g1_run(sum: *mut c_void, vector: *mut c_void, len: usize, out: *mut c_void) -> Error;
    fn peer_g1_close(sum: *mut c_void) -> Error;
    fn peer_g2_open(sum: &mut *mut c_void, points: *const c_void, len: usize) -> Error;
    fn peer_g2_run(sum: *mut c_void, vector: *mut c_void, len: usize, out: *mut c_void) -> Error;
    fn peer_g2_close(sum: *mut c_void) -> Error;
}

fn check(error: Error) -> Result<()> {
    if error.code == 0 { Ok(()) } else { Err(anyhow!("sppark: {}", String::from(error))) }
}

/// Has sppark find the card, and keep the memory that its sums take between them.
pub fn start() -> Result<()> {
    // SAFETY: no arguments.
    check(unsafe { peer_start() })
}

/// Has sppark give back memory that it does not use.
pub fn trim() -> Result<()> {
    // SAFETY: no arguments.
    check(unsafe { peer_trim() })
}

/// Field elements in sppark's memory.
pub struct Vector {
    at: *mut c_void,
    len: usize,
}

impl Vector {
    /// A vector of these elements.
    pub fn new(elements: &[Fr]) -> Result<Self> {
        let mut vector = Self { at: null_mut(), len: elements.len() };
        // SAFETY: the pointer is written once, and is freed by `drop`.
        check(unsafe { peer_vector_open(&mut vector.at, vector.len) })?;
        vector.upload(elements)?;
        Ok(vector)
    }

    /// Other elements, as many.
    pub fn upload(&mut self, elements: &[Fr]) -> Result<()> {
        assert_eq!(elements.len(), self.len);
        // SAFETY: both have `len` elements; the call returns when they are copied.
        check(unsafe { peer_vector_upload(self.at, elements.as_ptr(), self.len) })
    }

    /// The elements.
    pub fn download(&self) -> Result<Vec<Fr>> {
        let mut elements = vec![Fr::default(); self.len];
        // SAFETY: both have `len` elements, any of which is a valid `Fr`; the call returns when they are copied.
        check(unsafe { peer_vector_download(self.at, elements.as_mut_ptr(), self.len) })?;
        Ok(elements)
    }

    fn log_n(&self) -> u32 {
        assert!(self.len.is_power_of_two());
        self.len.ilog2()
    }

    /// Coefficients in natural order to evaluations in natural order (sppark's NN, forward), `count` times.
    pub fn evaluate(&mut self, count: u32) -> Result<()> {
        // SAFETY: the vector has 2^log_n elements; the call returns when they are computed.
        check(unsafe { peer_evaluate(self.at, self.log_n(), count) })
    }

    /// From evaluations of a, b and c the coefficients of (a b - c)/(X^n - 1), in natural order, in place of a's;
    /// `count` times.
    pub fn quotient(&mut self, b: &mut Self, c: &mut Self, count: u32) -> Result<()> {
        assert!(self.len == b.len && self.len == c.len);
        // SAFETY: the vectors are different and have 2^log_n elements each; the call returns when all is computed.
        check(unsafe { peer_quotient(self.at, b.at, c.at, self.log_n(), count) })
    }
}

impl Drop for Vector {
    fn drop(&mut self) {
        // SAFETY: allocated by `peer_vector_open`, or null, and not used any more.
        let closed = check(unsafe { peer_vector_close(self.at) });
        if let Err(error) = closed {
            eprintln!("{error}");
        }
    }
}

/// A group that sppark sums in.
pub trait Group: Coordinate {
    /// sppark's functions for it.
    const CALLS: Calls;
}

pub struct Calls {
    open: unsafe extern "C" fn(&mut *mut c_void, *const c_void, usize) -> Error,
    run: unsafe extern "C" fn(*mut c_void, *mut c_void, usize, *mut c_void) -> Error,
    close: unsafe extern "C" fn(*mut c_void) -> Error,
}

impl Group for Fp {
    const CALLS: Calls = Calls { open: peer_g1_open, run: peer_g1_run, close: peer_g1_close };
}

impl Group for Fp2 {
    const CALLS: Calls = Calls { open: peer_g2_open, run: peer_g2_run, close: peer_g2_close };
}

/// Points in sppark's memory, with buckets for the window that it chooses for so many.
pub struct Sum<F: Group> {
    at: *mut c_void,
    len: usize,
    group: PhantomData<F>,
}

impl<F: Group> Sum<F> {
    /// Brings the points there.
    pub fn new(points: &[Affine<F>]) -> Result<Self> {
        let mut sum = Self { at: null_mut(), len: points.len(), group: PhantomData };
        // SAFETY: `len` points in sppark's own layout (its sizes are asserted); the call returns when they are copied.
        check(unsafe { (F::CALLS.open)(&mut sum.at, points.as_ptr().cast(), sum.len) })?;
        Ok(sum)
    }

    /// The sum of all points, each times its scalar.
    pub fn run(&mut self, scalars: &mut Vector) -> Result<Point<F>> {
        assert_eq!(scalars.len, self.len);
        let mut out = Point::<F>::zeroed();
        let to = (&raw mut out).cast();
        // SAFETY: as many scalars as points, which sppark only reads; one Jacobian point is written.
        check(unsafe { (F::CALLS.run)(self.at, scalars.at, self.len, to) })?;
        Ok(out)
    }
}

impl<F: Group> Drop for Sum<F> {
    fn drop(&mut self) {
        // SAFETY: made by `open`, or null, and not used any more.
        let closed = check(unsafe { (F::CALLS.close)(self.at) });
        if let Err(error) = closed {
            eprintln!("{error}");
        }
    }
}
